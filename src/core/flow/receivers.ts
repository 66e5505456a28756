/** The two ends a destination can have: a publisher that sends, or the listeners of this process. */
import { ERROR_CODES, OutboxError, RetryAfter } from '../errors.ts'
import { viewEvent } from '../event-view.ts'
import type { ListenerRegistry } from '../listeners.ts'
import type { Delivery } from '../model/delivery.ts'
import { plain } from '../model/plain.ts'
import { shownWithKind } from '../model/shown.ts'
import type { ResolvedDestination } from '../options.ts'
import type { OutgoingDelivery, Publisher, SendResult } from '../spi/index.ts'
import { attemptNumber, checkResults, type Receiver } from './deliver.ts'
import type { ReceiveContext } from './receive-context.ts'

const SENT: SendResult = Object.freeze({ ok: true })

/** Not its fault: it spends no attempt. */
const BEHIND: SendResult = Object.freeze({
  ok: false,
  error: new RetryAfter(0, { message: 'one before it in its key has no topic', counted: false }),
})

/** After a deadline nobody looks at it. After a stop it is not the event's fault: it spends no attempt. */
const GIVEN_UP: SendResult = Object.freeze({
  ok: false,
  error: new RetryAfter(0, { message: 'it was given up before all listeners had begun', counted: false }),
})

export const publisherReceiver = (publisher: Publisher, destination: ResolvedDestination): Receiver => ({
  kind: 'publisher',
  async receive(deliveries, context) {
    const outgoing: OutgoingDelivery[] = []
    // A topic function that throws is about its own event, not about the batch. But in an ordered batch what follows
    // in its key would overtake it.
    const failed = new Map<Delivery, SendResult>()
    const failedKeys = new Set<string | null>()
    for (const delivery of deliveries) {
      const { key } = delivery.event
      const failure = failedKeys.has(key) ? BEHIND : tryToAdd(outgoing, delivery, destination)
      if (failure === null) continue
      failed.set(delivery, failure)
      if (key !== null) failedKeys.add(key)
    }
    const sent = outgoing.length === 0 ? [] : await publisher.send(outgoing, context)
    if (failed.size === 0) return sent
    checkResults(sent, outgoing.length)
    let next = 0
    return deliveries.map((delivery) => failed.get(delivery) ?? (sent[next++] as SendResult))
  },
})

const tryToAdd = (
  outgoing: OutgoingDelivery[],
  delivery: Delivery,
  destination: ResolvedDestination,
): SendResult | null => {
  try {
    outgoing.push(new Outgoing(delivery, destination))
    return null
  } catch (error) {
    return { ok: false, error }
  }
}

const Outgoing = plain<[delivery: Delivery, destination: ResolvedDestination], OutgoingDelivery>(
  function (delivery, destination) {
    const { event, run } = delivery
    this.deliveryId = delivery.id
    this.event = event
    this.attempt = attemptNumber(delivery)
    this.run = run
    this.deduplicationId = run === 1 ? event.id : `${event.id}:${run}`
    this.topic = topicOf(delivery, destination)
  },
)

/** A function of somebody's own: brokers would make a text of anything, and send it there. */
const topicOf = ({ event }: Delivery, { name, topic }: ResolvedDestination): string => {
  const found: unknown = topic(event)
  if (typeof found === 'string') return found
  throw new TypeError(
    `topic of destination "${name}" must give a text for "${event.type}", not ${shownWithKind(found)}`,
  )
}

export const listenersReceiver = (registry: ListenerRegistry, destination: string): Receiver => ({
  kind: 'listeners',
  receive(deliveries, context) {
    // Listeners take one at a time; the batch size of such a destination is 1.
    const delivery = deliveries[0] as Delivery
    return hear(registry, destination, delivery, context)
  },
})

/**
 * Runs to the first failure, or until the attempt is over: its retry may be under way by then. Stays synchronous as
 * long as the listeners do: most of the cost is waiting.
 */
const hear = (
  registry: ListenerRegistry,
  destination: string,
  delivery: Delivery,
  context: ReceiveContext,
): Promise<readonly SendResult[]> | readonly SendResult[] => {
  const listeners = registry.listenersFor(delivery.event.type)
  if (listeners.length === 0) return [{ ok: false, error: noListener(delivery, destination) }]
  const heard = new ListenerCall(delivery, destination, context)
  const go = (from: number): Promise<readonly SendResult[]> | readonly SendResult[] => {
    for (let i = from; i < listeners.length; i += 1) {
      if (context.over) return [GIVEN_UP]
      const { listener, definition } = listeners[i] as (typeof listeners)[number]
      const returned: unknown = listener(viewEvent(delivery.event, definition), heard)
      if (isPromiseLike(returned)) return Promise.resolve(returned).then(() => go(i + 1))
    }
    return [SENT]
  }
  return go(0)
}

const isPromiseLike = (value: unknown): value is PromiseLike<unknown> =>
  (typeof value === 'object' || typeof value === 'function') &&
  value !== null &&
  typeof (value as { then?: unknown }).then === 'function'

/** What a listener is told beside the event; the signal is made when it is first looked at. */
class ListenerCall {
  readonly attempt: number
  readonly source: Delivery['source']
  readonly destination: string
  readonly deliveryId: string
  readonly run: number
  readonly #context: ReceiveContext

  constructor(delivery: Delivery, destination: string, context: ReceiveContext) {
    this.attempt = attemptNumber(delivery)
    this.source = delivery.source
    this.destination = destination
    this.deliveryId = delivery.id
    this.run = delivery.run
    this.#context = context
  }

  get signal(): AbortSignal {
    return this.#context.signal
  }
}

const noListener = (delivery: Delivery, destination: string): OutboxError =>
  new OutboxError(
    ERROR_CODES.noListener,
    `no listener for "${delivery.event.type}" is registered for destination "${destination}" in this process; ` +
      'register one with outbox.on(…) before start(), or narrow the events of the destination',
    { type: delivery.event.type, destination },
  )
