/** The words in which the cases of the publisher suite are written. */
import assert from 'node:assert/strict'
import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import type { EventRecord } from '../../core/model/event.ts'
import { createIdGenerator } from '../../core/model/index.ts'
import { classify, type Verdict } from '../../core/policy/failure.ts'
import type { OutgoingDelivery, Publisher, SendResult } from '../../core/spi/index.ts'
import type { PublisherHarness, PublisherSettings, ReceivedMessage } from './publisher-harness.ts'
import { Inapplicable, type SuiteTopic } from './run-suite.ts'

export type DeliveryOverrides = Partial<EventRecord> & { readonly topic?: string; readonly run?: number }

/** How long a send may take in a case that is not about time. */
const PATIENCE_MS = 60_000

export class PublisherFixture {
  readonly harness: PublisherHarness
  readonly #opened: Publisher[] = []
  readonly #newId = createIdGenerator({ wallNow: () => Date.now(), randomBytes })

  constructor(harness: PublisherHarness) {
    this.harness = harness
  }

  need<K extends keyof PublisherHarness>(hook: K, without: string): NonNullable<PublisherHarness[K]> {
    const found = this.harness[hook]
    if (found === undefined) throw new Inapplicable(without)
    return (typeof found === 'function' ? found.bind(this.harness) : found) as NonNullable<
      PublisherHarness[K]
    >
  }

  open(settings?: PublisherSettings): Publisher {
    return this.closing(this.harness.open(settings))
  }

  /** Closed at the end of the case. */
  closing(publisher: Publisher): Publisher {
    this.#opened.push(publisher)
    return publisher
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map(async (publisher) => await publisher.close?.()))
  }

  delivery(over: DeliveryOverrides = {}): OutgoingDelivery {
    const { topic = this.harness.topic, run = 1, ...fields } = over
    const data = fields.data ?? '{"n":1}'
    const id = fields.id ?? this.#newId()
    const event: EventRecord = {
      id,
      type: 'order.placed',
      version: 1,
      key: null,
      aggregateType: null,
      aggregateId: null,
      tenantId: null,
      headers: {},
      contentType: 'application/json',
      size: typeof data === 'string' ? Buffer.byteLength(data) : data.byteLength,
      occurredAtMs: 1_700_000_000_123,
      createdAtMs: 1_700_000_000_456,
      replacesId: null,
      ...fields,
      data,
    }
    return {
      deliveryId: this.#newId(),
      event,
      attempt: 1,
      run,
      deduplicationId: run === 1 ? id : `${id}:${run}`,
      topic,
    }
  }

  /** As the core does it: no more than `maxBatch` at once, and a throw counts for each of them. */
  async send(
    publisher: Publisher,
    deliveries: readonly OutgoingDelivery[],
    timeoutMs = PATIENCE_MS,
  ): Promise<readonly SendResult[]> {
    const results: SendResult[] = []
    const most = publisher.maxBatch ?? 1
    for (let from = 0; from < deliveries.length; from += most) {
      const batch = deliveries.slice(from, from + most)
      const signal = AbortSignal.timeout(timeoutMs)
      try {
        const sent = await publisher.send(batch, { signal })
        assert.equal(sent.length, batch.length, 'one result for each delivery')
        results.push(...sent)
      } catch (error) {
        results.push(...batch.map((): SendResult => ({ ok: false, error })))
      }
    }
    return results
  }

  async sends(publisher: Publisher, deliveries: readonly OutgoingDelivery[]): Promise<void> {
    for (const result of await this.send(publisher, deliveries)) {
      if (!result.ok) throw new assert.AssertionError({ message: `not accepted: ${String(result.error)}` })
    }
  }

  /** What the core makes of a result. */
  verdict(result: SendResult | undefined): Verdict | 'done' {
    assert.ok(result)
    if (result.ok) return 'done'
    const info = { attempt: 1, type: 'order.placed', destination: 'x' }
    return classify(result.error, info, { from: 'publisher' }).verdict
  }

  async only(): Promise<ReceivedMessage> {
    const [first, ...others] = await this.harness.received(1)
    assert.ok(first)
    assert.equal(others.length, 0, 'nothing but what was sent')
    return first
  }

  header(message: ReceivedMessage, name: string): string | undefined {
    return message.headers[this.harness.headerName?.(name) ?? name]
  }
}

export const text = ({ body }: ReceivedMessage): string => Buffer.from(body).toString('utf8')

/** Where each number arrived first. Some may come twice, so more are waited for until none is missing. */
export const firstArrivals = async (
  t: PublisherFixture,
  total: number,
): Promise<ReadonlyMap<number, number>> => {
  const first = new Map<number, number>()
  for (let wanted = total; first.size < total; ) {
    const received = await t.harness.received(wanted)
    for (const [at, message] of received.entries()) {
      const { n } = JSON.parse(text(message)) as { n: number }
      if (!first.has(n)) first.set(n, at)
    }
    wanted = received.length + 1
  }
  return first
}

export type PublisherTopic = SuiteTopic<PublisherFixture>
