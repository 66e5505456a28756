/**
 * What publishers to brokers have in common: one connection, opened when something is first sent and opened anew after
 * it broke; no send that outlives its deadline; an end that waits for what is under way.
 *
 * Nobody reconnects in the background: the breaker of the destination decides when it is worth a try.
 */
import { isOutageError, isPermanentError, isRetryAfter, OutageError } from '../../core/errors.ts'
import type { OutgoingDelivery, Publisher, SendContext, SendResult } from '../../core/spi/index.ts'
import { closedError } from './results.ts'

export interface Broker<Connection> {
  /** Named in messages. */
  readonly name: string
  readonly maxBatch: number
  readonly orderedPrefix?: boolean
  /** `broken` is to be called when the connection is no longer of any use. */
  open(broken: () => void): Promise<Connection>
  end(connection: Connection): Promise<unknown> | void
  /** A throw means that the broker could not be asked; what it said of a delivery is that delivery's result. */
  send(
    connection: Connection,
    deliveries: readonly OutgoingDelivery[],
    context: SendContext,
  ): Promise<readonly SendResult[]>
}

/** Rejects when the signal is aborted, whatever becomes of the work. */
const within = async <T>(work: Promise<T>, signal: AbortSignal): Promise<T> => {
  let stop: (() => void) | undefined
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
  // Whoever loses the race has nobody waiting for it any more.
  work.catch(() => undefined)
  try {
    return await Promise.race([work, aborted])
  } finally {
    if (stop !== undefined) signal.removeEventListener('abort', stop)
  }
}

class BrokerPublisher<Connection> implements Publisher {
  readonly maxBatch: number
  readonly orderedPrefix: boolean
  readonly #broker: Broker<Connection>
  readonly #underWay = new Set<Promise<unknown>>()
  #connection: Promise<Connection> | null = null
  #closed = false

  constructor(broker: Broker<Connection>) {
    this.#broker = broker
    this.maxBatch = broker.maxBatch
    this.orderedPrefix = broker.orderedPrefix ?? false
  }

  async send(deliveries: readonly OutgoingDelivery[], context: SendContext): Promise<readonly SendResult[]> {
    if (this.#closed) throw closedError(`the publisher to ${this.#broker.name}`)
    const sending = this.#send(deliveries, context)
    this.#underWay.add(sending)
    try {
      return await sending
    } finally {
      this.#underWay.delete(sending)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled(this.#underWay)
    const open = this.#connection
    this.#connection = null
    if (open !== null) await this.#end(open)
  }

  async #send(deliveries: readonly OutgoingDelivery[], context: SendContext): Promise<readonly SendResult[]> {
    const { signal } = context
    const opened = this.#open()
    try {
      const connection = await within(opened, signal)
      return await within(this.#broker.send(connection, deliveries, context), signal)
    } catch (error) {
      // A connection that does not answer in time may still have all of it in hand.
      this.#drop(opened)
      throw this.#asOutage(error)
    }
  }

  #open(): Promise<Connection> {
    if (this.#connection !== null) return this.#connection
    const opened: Promise<Connection> = this.#broker.open(() => this.#drop(opened))
    this.#connection = opened
    opened.catch(() => this.#drop(opened))
    return opened
  }

  #drop(opened: Promise<Connection>): void {
    if (this.#connection !== opened) return
    this.#connection = null
    void this.#end(opened)
  }

  async #end(opened: Promise<Connection>): Promise<void> {
    try {
      await this.#broker.end(await opened)
    } catch {
      // It was never open, or is gone already.
    }
  }

  #asOutage(error: unknown): unknown {
    if (isOutageError(error) || isPermanentError(error) || isRetryAfter(error)) return error
    const why = error instanceof Error ? error.message : String(error)
    return new OutageError(`${this.#broker.name} could not be asked: ${why}`, { cause: error })
  }
}

export const brokerPublisher = <Connection>(broker: Broker<Connection>): Publisher =>
  new BrokerPublisher(broker)
