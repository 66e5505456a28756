/**
 * One empty schema on a server and any number of outboxes on it, each of which stands for a process. Tests wait
 * with `until`, which looks again whenever one of these outboxes did something with the database or heard an event.
 */
import pg from 'pg'
import {
  createOutbox,
  type DestinationOptions,
  type Outbox,
  type OutboxOptions,
  type Store,
} from '../../src/index.ts'
import { type PostgresHandle, postgresStore, type SqlExecutor } from '../../src/stores/postgres/index.ts'
import type { PostgresUrlOptions } from '../../src/stores/postgres/options.ts'
import { createBell } from '../../src/testing/bell.ts'
import { observeStore } from '../../src/testing/observed-store.ts'
import { newSchema } from '../stores/postgres-harness.ts'

export type PgOutbox = Outbox<PostgresHandle, SqlExecutor, string>
export type PgStore = Store<PostgresHandle, SqlExecutor>

export interface LogLine {
  readonly level: string
  readonly message: string
  readonly error: string
}

/** An event as a listener got it. */
export interface Heard {
  readonly n: number
  readonly key: string | null
  readonly source: string
}

type Given = Omit<OutboxOptions<PostgresHandle, SqlExecutor>, 'store' | 'destinations'> & {
  /** A store of this package, whatever its transactions look like. */
  readonly store?: object
  /** Another way to the same server. */
  readonly url?: string
  readonly destinations?: Readonly<Record<string, DestinationOptions>>
  readonly storeOptions?: Partial<PostgresUrlOptions>
}

export class PostgresWorld implements AsyncDisposable {
  readonly url: string
  readonly schema: string
  /** For what is done by hand. */
  readonly hand: pg.Pool
  readonly log: LogLine[] = []
  /** Texts that the stores of this world sent, in order. */
  readonly statements: string[] = []
  readonly heard: Heard[] = []
  readonly #bell = createBell()
  readonly #outboxes: PgOutbox[] = []

  constructor(url: string, schema = newSchema()) {
    this.url = url
    this.schema = schema
    this.hand = new pg.Pool({ connectionString: url, max: 4 })
    // A server that is killed cuts these too.
    this.hand.on('error', () => undefined)
  }

  /** The store, watched. */
  watch(store: object): PgStore {
    return observeStore(store as PgStore, { changed: () => this.ring() })
  }

  store(options: Partial<PostgresUrlOptions> = {}): PgStore {
    return this.watch(
      postgresStore({
        connectionString: this.url,
        schema: this.schema,
        onStatement: (sql) => void this.statements.push(sql),
        ...options,
      }),
    )
  }

  /** For outboxes that have no time for it. */
  async migrate(): Promise<void> {
    await this.outbox().schema.migrate()
  }

  /** Another process. */
  outbox(given: Given = {}): PgOutbox {
    const { store, url, storeOptions, ...options } = given
    const outbox = createOutbox({
      store:
        store === undefined
          ? this.store({ ...(url === undefined ? {} : { connectionString: url }), ...storeOptions })
          : this.watch(store),
      migrate: true,
      pollIntervalMs: 50,
      pollIdleMaxMs: 200,
      logger: {
        log: (level, message, fields) => {
          this.log.push({ level, message, error: String(fields?.error ?? '') })
          this.ring()
        },
      },
      ...options,
    }) as unknown as PgOutbox
    this.#outboxes.push(outbox)
    return outbox
  }

  /** Listens for `tick` and notes what comes. */
  listen(outbox: PgOutbox): PgOutbox {
    outbox.on<{ n: number }>('tick', (event, { source }) => {
      this.heard.push({ n: event.payload.n, key: event.key, source })
      this.ring()
    })
    return outbox
  }

  get numbers(): number[] {
    return this.heard.map(({ n }) => n)
  }

  async rows<R extends object = Record<string, unknown>>(
    sql: string,
    values: readonly unknown[] = [],
  ): Promise<R[]> {
    return (await this.hand.query(sql.replaceAll('{schema}', this.schema), [...values])).rows as R[]
  }

  until(condition: () => boolean | Promise<boolean>): Promise<void> {
    return this.#bell.until(condition)
  }

  ring(): void {
    this.#bell.ring()
  }

  /** Everything that is stored was delivered. */
  async drained(): Promise<void> {
    await this.until(async () => (await this.rows('SELECT FROM {schema}.deliveries LIMIT 1')).length === 0)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#outboxes.map((outbox) => outbox.close()))
    await this.hand.query(`DROP SCHEMA IF EXISTS ${this.schema} CASCADE`)
    await this.hand.end()
  }
}

export const tick = (
  n: number,
  key?: string,
): { readonly type: string; readonly payload: { readonly n: number }; readonly key?: string } => ({
  type: 'tick',
  payload: { n },
  ...(key === undefined ? {} : { key }),
})

export const publishTick = (outbox: PgOutbox, n: number, key?: string): Promise<string> =>
  outbox.transaction((tx) => outbox.publish(tx, tick(n, key)))
