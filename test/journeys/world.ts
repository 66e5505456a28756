/**
 * One empty database and any number of outboxes on it, each of which stands for a process. Tests wait with
 * `until`, which looks again whenever one of these outboxes did something with the database.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  createOutbox,
  type DeliveryView,
  type DestinationOptions,
  type Draft,
  type EventDetail,
  type Outbox,
  type OutboxOptions,
  type SettleRequest,
  type Store,
} from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { createBell } from '../../src/testing/bell.ts'
import { createMemoryDatabase, memoryStore } from '../../src/testing/index.ts'
import { observeStore } from '../../src/testing/observed-store.ts'

export const KINDS = ['memory', 'sqlite'] as const
export type Kind = (typeof KINDS)[number]

type Given = Omit<OutboxOptions<unknown, unknown>, 'store' | 'destinations'>
export type AnyOutbox<Names extends string = string> = Outbox<unknown, unknown, Names>

export class World {
  readonly kind: Kind
  readonly directory = mkdtempSync(join(tmpdir(), 'posthaste-journey-'))
  readonly database = createMemoryDatabase()
  /** Calls of the store in the order in which they began, of all outboxes of this world. */
  readonly calls: string[] = []
  readonly statements: string[] = []
  readonly settled: SettleRequest['settlements'][number][] = []
  readonly #bell = createBell()
  readonly #outboxes: AnyOutbox[] = []

  constructor(kind: Kind) {
    this.kind = kind
  }

  get file(): string {
    return join(this.directory, 'outbox.db')
  }

  store(): Store {
    const plain =
      this.kind === 'memory'
        ? memoryStore({ database: this.database })
        : sqliteStore({
            file: this.file,
            driver: 'libsql',
            onStatement: (sql) => void this.statements.push(sql),
          })
    return observeStore(plain as unknown as Store, {
      called: (call) => void this.calls.push(call),
      changed: () => this.#bell.ring(),
      settled: ({ settlements }) => void this.settled.push(...settlements),
    })
  }

  /** Another process. */
  outbox<const D extends Readonly<Record<string, DestinationOptions>> = Record<never, DestinationOptions>>(
    given: Given & { readonly destinations?: D; readonly store?: Store } = {},
  ): AnyOutbox<(keyof D & string) | 'local'> {
    const outbox = createOutbox<unknown, unknown, D>({ store: this.store(), ...given })
    this.#outboxes.push(outbox as unknown as AnyOutbox)
    return outbox
  }

  /** Waits for something that the outboxes of this world bring about. */
  until(condition: () => boolean | Promise<boolean>): Promise<void> {
    return this.#bell.until(condition)
  }

  /** For what happens outside of the store, such as in a handler. */
  ring(): void {
    this.#bell.ring()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#outboxes.map((outbox) => outbox.close()))
    rmSync(this.directory, { recursive: true, force: true })
  }
}

export const detailOf = async (outbox: AnyOutbox<never>, eventId: string): Promise<EventDetail> => {
  const detail = await outbox.inspect.event(eventId)
  if (detail === null) throw new Error(`event ${eventId} is not there`)
  return detail
}

/** The only delivery of the event, or the one for a destination; the latest run. */
export const deliveryOf = async (
  outbox: AnyOutbox<never>,
  eventId: string,
  destination?: string,
): Promise<DeliveryView> => {
  const { deliveries } = await detailOf(outbox, eventId)
  const found = deliveries.filter((one) => destination === undefined || one.destination === destination)
  const last = found.sort((a, b) => a.run - b.run).at(-1)
  if (last === undefined) throw new Error(`event ${eventId} has no delivery for ${destination ?? 'anybody'}`)
  return last
}

export const publishOne = (outbox: AnyOutbox<never>, draft: Draft): Promise<string> =>
  outbox.transaction((tx) => outbox.publish(tx, draft))

/** A promise and its resolver; for handlers that wait until the test lets them go. */
export interface Gate<T = void> {
  readonly promise: Promise<T>
  open(value: T): void
}

export const gate = <T = void>(): Gate<T> => {
  let open!: (value: T) => void
  const promise = new Promise<T>((resolve) => {
    open = resolve
  })
  return { promise, open }
}

/** A transaction that has published and commits only when the test lets it. `committed`: with the id of the event. */
export const publishAndWait = async <Tx>(
  outbox: Pick<Outbox<Tx>, 'transaction' | 'publish'>,
  draft: Draft,
): Promise<{ readonly committed: Promise<string>; commit(): void }> => {
  const [published, end] = [gate(), gate()]
  const committed = outbox.transaction(async (tx) => {
    const id = await outbox.publish(tx, draft)
    published.open()
    await end.promise
    return id
  })
  await published.promise
  return { committed, commit: () => end.open() }
}
