/**
 * PGlite, PostgreSQL inside this process, as a pool of `pg` looks to the store. It has one session, so the clients of
 * this pool are views of it: a statement alone waits for PGlite's own lock, and from BEGIN to the end a client is a
 * transaction of PGlite, which everybody else waits for. So the application may go on using PGlite directly.
 */
import { Buffer } from 'node:buffer'
import type { PostgresPool, PostgresQuery, PostgresResult } from './driver.ts'
import { sqlState } from './errors.ts'

/** How values get to PGlite and back; the members that are used. */
interface PgliteQueryOptions {
  rowMode?: 'array' | 'object'
  // biome-ignore lint/suspicious/noExplicitAny: PGlite's own types have it
  parsers?: Record<number | string, (text: string) => any>
  // biome-ignore lint/suspicious/noExplicitAny: PGlite's own types have it
  serializers?: Record<number | string, (value: any) => string>
}

interface PgliteResult {
  readonly rows: readonly unknown[]
  readonly fields: readonly unknown[]
  readonly affectedRows?: number | undefined
}

interface PgliteQueries {
  // biome-ignore lint/suspicious/noExplicitAny: PGlite's own types have it
  query(sql: string, params?: any[], options?: PgliteQueryOptions): Promise<PgliteResult>
  exec(sql: string, options?: PgliteQueryOptions): Promise<readonly PgliteResult[]>
}

/** A `Transaction` of PGlite, as far as it is used here. */
export interface PgliteTransaction extends PgliteQueries {
  readonly closed: boolean
  rollback(): Promise<void>
}

/** A `PGlite`, as far as it is used here. */
export interface PgliteDatabase extends PgliteQueries {
  readonly waitReady: Promise<void>
  /** Of every type that it knows. */
  readonly parsers: object
  transaction<T>(callback: (tx: PgliteTransaction) => Promise<T>): Promise<T>
}

/** What the pool's `connect` gives: a client of `pg`, as far as most people use it. */
export interface PgliteClient {
  query<R = Record<string, unknown>>(
    text: string,
    values?: readonly unknown[],
  ): Promise<{ readonly rows: R[]; readonly rowCount: number | null }>
  release(): void
}

const textOf = (value: unknown): string =>
  value instanceof Uint8Array
    ? `\\x${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('hex')}`
    : String(value)

const keep = (text: string): string => text

/** Every value as PostgreSQL itself reads it. PGlite looks each type up, and has its own idea of most of them. */
export const AS_TEXT: Record<number | string, (value: unknown) => string> = new Proxy(
  {},
  { get: () => textOf },
)

/** The store reads the server's text, whatever the application wants its types to be. */
const rawParsers = ({ parsers }: PgliteDatabase): Record<string, (text: string) => unknown> =>
  Object.fromEntries(Object.keys(parsers).map((type) => [type, keep]))

const END = String.raw`(?:\s+(?:WORK|TRANSACTION))?\s*;?\s*$`
const BEGIN = /^\s*(?:BEGIN(?:\s+(?:WORK|TRANSACTION))?|START\s+TRANSACTION)(?<modes>\s[^;]*)?;?\s*$/i
const COMMIT = new RegExp(String.raw`^\s*(?:COMMIT|END)${END}`, 'i')
const ROLLBACK = new RegExp(String.raw`^\s*(?:ROLLBACK|ABORT)${END}`, 'i')

/** PGlite says with an error what PostgreSQL says with the tag ROLLBACK. */
const GIVEN_UP = '25P02'

const tagOnly = (command: string): PostgresResult => ({ rows: [], command })

const resultOf = (result: PgliteResult): PostgresResult => {
  const { command, rowCount } = result as { readonly command?: string; readonly rowCount?: number }
  return Object.assign({ ...result }, { command: command ?? '', rowCount: rowCount ?? null })
}

interface Open {
  readonly tx: PgliteTransaction
  /** Lets PGlite's own function return, which commits. */
  readonly end: () => void
  /** What became of it. */
  readonly over: Promise<void>
}

class Client {
  readonly #db: PgliteDatabase
  #open: Open | null = null
  #failed = false
  #released = false

  constructor(db: PgliteDatabase) {
    this.#db = db
  }

  async query(
    given: PostgresQuery | string,
    values?: readonly unknown[],
  ): Promise<PostgresResult | readonly PostgresResult[]> {
    const query: PostgresQuery = typeof given === 'string' ? { text: given } : given
    const { text } = query
    if (this.#open === null) {
      const begin = BEGIN.exec(text)
      return begin === null
        ? await this.#send(this.#db, query, values)
        : await this.#begin(begin.groups?.modes)
    }
    if (COMMIT.test(text)) return await this.#end(this.#open, 'COMMIT')
    if (ROLLBACK.test(text)) return await this.#end(this.#open, 'ROLLBACK')
    try {
      const answer = await this.#send(this.#open.tx, query, values)
      this.#failed = false
      return answer
    } catch (error) {
      this.#failed = true
      throw error
    }
  }

  getTransactionStatus(): string {
    return this.#open === null ? 'I' : this.#failed ? 'E' : 'T'
  }

  /** There is no connection that could break, and nothing to listen to. */
  on(): void {}
  removeListener(): void {}

  /** What is still open is undone, also what only now gets its turn. */
  release(): void {
    this.#released = true
    if (this.#open !== null) this.#end(this.#open, 'ROLLBACK').catch(() => undefined)
  }

  async #send(
    on: PgliteQueries,
    { text, values: own, rowMode, types }: PostgresQuery,
    given?: readonly unknown[],
  ): Promise<PostgresResult | readonly PostgresResult[]> {
    const values = given ?? own ?? []
    const isStores = types !== undefined
    const options: PgliteQueryOptions = {
      ...(rowMode === undefined ? {} : { rowMode }),
      ...(isStores ? { parsers: rawParsers(this.#db), serializers: AS_TEXT } : {}),
    }
    if (values.length > 0) return resultOf(await on.query(text, [...values], options))
    const results = (await on.exec(text, options)).map(resultOf)
    return results.length === 1 ? (results[0] as PostgresResult) : results
  }

  #begin(modes = ''): Promise<PostgresResult> {
    this.#failed = false
    return new Promise((opened, failed) => {
      const over: Promise<void> = this.#db.transaction(async (tx) => {
        if (this.#released) return
        if (modes.trim() !== '') await tx.exec(`SET TRANSACTION ${modes}`)
        await new Promise<void>((end) => {
          this.#open = { tx, end, over: Promise.resolve().then(() => over) }
          opened(tagOnly('BEGIN'))
        })
      })
      // Who began hears of the end where it ends; this is for one that never got that far.
      over.catch(failed)
    })
  }

  async #end({ tx, end, over }: Open, how: 'COMMIT' | 'ROLLBACK'): Promise<PostgresResult> {
    this.#open = null
    this.#failed = false
    try {
      if (how === 'ROLLBACK') await tx.rollback()
    } finally {
      end()
    }
    try {
      await over
      return tagOnly(how)
    } catch (error) {
      if (sqlState(error) === GIVEN_UP) return tagOnly('ROLLBACK')
      throw error
    }
  }
}

/** For `postgresStore({ pool: pglitePool(db) })`; ending `db` is the application's. */
export const pglitePool = (db: PgliteDatabase): PostgresPool<PgliteClient> => ({
  embedded: true,
  async connect() {
    await db.waitReady
    return new Client(db) as unknown as PgliteClient
  },
  on: () => undefined,
  removeListener: () => undefined,
  end: async () => undefined,
})
