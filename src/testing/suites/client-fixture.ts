/** The words in which the cases of the client suite are written. */
import assert from 'node:assert/strict'
import { createOutbox } from '../../core/outbox.ts'
import type { Outbox } from '../../core/outbox-api.ts'
import { createBell } from '../bell.ts'
import { observeStore } from '../observed-store.ts'
import type { ClientHarness } from './client-harness.ts'
import { Inapplicable, type SuiteTopic } from './run-suite.ts'

/** What one event of the suite looks like. */
export interface Said {
  readonly type: string
  readonly payload: unknown
  readonly id?: string
  readonly key?: string
  readonly idempotencyKey?: string
  readonly contentType?: string
}

export interface Heard {
  readonly id: string
  readonly type: string
  readonly payload: unknown
  readonly source: string
}

/** How long a case waits for something that must happen. */
const PATIENCE_MS = 60_000

const MARKER = 'marker'

const MOST_TRIES = 50

export class ClientFixture {
  readonly harness: ClientHarness
  readonly outbox: Outbox<unknown, unknown>
  readonly heard: Heard[] = []
  readonly #bell = createBell()

  constructor(harness: ClientHarness) {
    this.harness = harness
    this.outbox = createOutbox({
      store: observeStore(harness.store, { changed: () => this.#bell.ring() }),
      transactions: harness.transactions,
      migrate: true,
      pollIntervalMs: 50,
      pollIdleMaxMs: 200,
      // What was claimed by a transaction whose end nobody knows is free again after this.
      hotLeaseMs: 1_000,
    })
    this.outbox.onAny((event, { source }) => {
      this.heard.push({ id: event.id, type: event.type, payload: event.payload, source })
      this.#bell.ring()
    })
  }

  /** A hook of the harness that this case cannot do without. */
  need<K extends 'ownNested' | 'spoilCommit' | 'loseCommit' | 'deadlock' | 'roundTrips'>(
    hook: K,
    without: string,
  ): NonNullable<ClientHarness[K]> {
    const found = this.harness[hook]
    if (found === undefined) throw new Inapplicable(without)
    return found.bind(this.harness) as NonNullable<ClientHarness[K]>
  }

  needs(condition: boolean, without: string): void {
    if (!condition) throw new Inapplicable(without)
  }

  publish(tx: unknown, type: string, more: Partial<Said> = {}): Promise<string> {
    return this.outbox.publish(tx, { type, payload: { type }, ...more })
  }

  /** The application's row and an event in one transaction. */
  async both(tx: unknown, n: number): Promise<void> {
    await this.harness.write(tx, n)
    await this.publish(tx, `e${n}`)
  }

  get types(): string[] {
    return this.heard.map(({ type }) => type).filter((type) => type !== MARKER)
  }

  sourceOf(type: string): string | undefined {
    return this.heard.find((one) => one.type === type)?.source
  }

  async until(what: string, condition: () => boolean | Promise<boolean>): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new assert.AssertionError({ message: `no ${what} in time` })),
        PATIENCE_MS,
      )
    })
    try {
      await Promise.race([this.#bell.until(condition), late])
    } finally {
      clearTimeout(timer)
    }
  }

  async hears(...types: readonly string[]): Promise<void> {
    await this.until(`delivery of ${types.join(', ')}`, () =>
      types.every((type) => this.types.includes(type)),
    )
  }

  /**
   * The poller may be there first, because such rows are free until they are looked up. So it is tried until one of
   * them went the hot way.
   */
  async goesHot(publish: (n: number) => Promise<unknown>): Promise<void> {
    const numbers: number[] = []
    do {
      const n = numbers.push(numbers.length)
      assert.ok(n <= MOST_TRIES, `none of ${MOST_TRIES} went the hot way`)
      await publish(n - 1)
      await this.hears(`e${n - 1}`)
    } while (!this.heard.some(({ source }) => source === 'hot'))
    await this.expectOnly(...numbers)
  }

  /** One more event goes all the way, and everything stored is delivered: what was not heard by then is not sent. */
  async settled(): Promise<void> {
    const id = await this.outbox.transaction((tx) => this.publish(tx, MARKER))
    await this.until('marker', () => this.heard.some((one) => one.id === id))
    await this.until('end of all deliveries', async () => {
      const { deliveries } = await this.outbox.inspect.list({ limit: 10_000 })
      return deliveries.every(({ status }) => status === 'done')
    })
  }

  /** Types of the stored events, in order. */
  async stored(): Promise<string[]> {
    const { deliveries } = await this.outbox.inspect.list({ limit: 10_000, order: 'oldest' })
    return deliveries.map(({ type }) => type).filter((type) => type !== MARKER)
  }

  /** Rows, events and deliveries are those of these numbers, and no others. */
  async expectOnly(...numbers: readonly number[]): Promise<void> {
    await this.settled()
    const types = numbers.map((n) => `e${n}`).sort()
    assert.deepEqual(
      await this.harness.written(),
      [...numbers].sort((a, b) => a - b),
    )
    assert.deepEqual((await this.stored()).sort(), types)
    assert.deepEqual(this.types.sort(), types)
  }

  async rejectsWith(code: string, work: () => Promise<unknown>): Promise<void> {
    await assert.rejects(work, (error: { readonly code?: unknown }) => {
      assert.equal(error.code, code, `${String(error)}`)
      return true
    })
  }
}

export type ClientTopic = SuiteTopic<ClientFixture>
