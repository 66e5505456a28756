/**
 * A place of its own in a database that somebody said may be thrown away: new tables under a name that nobody else has,
 * which are dropped at the end. For `prove` and `bench`; no other table is read or written.
 */
import { randomBytes } from 'node:crypto'
import { basename } from 'node:path'
import { type StorePlace, settledAddress, sqliteFile, storeAt } from '../config/url-outbox.ts'
import { ERROR_CODES } from '../core/errors.ts'
import type { Store, Transactions } from '../core/spi/index.ts'
import type { Flag } from './command.ts'
import type { Session } from './session.ts'
import { clean } from './text.ts'

/** To what consent is given. */
type Burden = 'load' | 'load and faults'

export const consentFlags = (burden: Burden): readonly Flag[] => [
  {
    name: 'yes',
    about:
      burden === 'load'
        ? 'yes, load this database; needed'
        : 'yes, load this database and kill what works on it; needed',
  },
  {
    name: 'database-is-disposable',
    value: 'NAME',
    about: 'the name of the database, typed again; needed (the file’s name for SQLite)',
  },
]

/** A paragraph of the help. */
export const WHICH_DATABASE =
  'Without --url it is the database whose address the configuration or the environment says. An outbox that is made by code, as posthaste init writes it, ' +
  'keeps its address to itself: name the database with --url then.'

type Row = Readonly<Record<string, unknown>>

export interface Sql {
  run(sql: string, params: readonly (string | number | null)[]): Promise<readonly Row[] | undefined>
}

export type DatabaseKind = 'postgres' | 'mysql' | 'sqlite'

/** Enough for another process to find the same tables. */
export interface Place {
  readonly kind: DatabaseKind
  readonly url: string
  readonly place: StorePlace
  /** The quoted name of a table beside those of the outbox. */
  readonly truth: string
  /** What all names begin with: a schema, or the begin of names. */
  readonly name: string
}

const transactionsOf = (store: Store): Transactions<unknown, Sql> =>
  store.transactions as Transactions<unknown, Sql>

export const inTransaction = async <T>(store: Store, fn: (sql: Sql) => Promise<T>): Promise<T> => {
  const transactions = transactionsOf(store)
  return await transactions.run(async (tx) => await fn(transactions.executor(tx)))
}

/** On MySQL a statement that makes or drops something ends its transaction, which is noticed, and meant. */
const runDdl = async (store: Store, sql: string): Promise<void> => {
  try {
    await inTransaction(store, async (executor) => void (await executor.run(sql, [])))
  } catch (error) {
    const { code } = error as { readonly code?: unknown }
    const isEnded = code === ERROR_CODES.noTransaction || code === ERROR_CODES.transactionEnded
    if (store.name !== 'mysql' || !isEnded) throw error
  }
}

const urlOf = async (session: Session): Promise<string> => {
  const said = session.text('url')
  if (said !== undefined) return said
  const { url } = await session.outbox()
  return (
    url?.value ??
    session.refuse(
      'this outbox is made by code, which keeps its address; give the address of the database with --url',
    )
  )
}

const opened = async (store: Store): Promise<void> => {
  const { createOutbox } = await import('../core/outbox.ts')
  const outbox = createOutbox({ store, migrate: false })
  // A question opens the store; the answer does not matter.
  await outbox.schema.status()
}

const nameOfDatabase = async (store: Store, url: string): Promise<string> => {
  // Opening would make a file that is not there.
  if (store.name === 'sqlite') return basename(sqliteFile(url) ?? url)
  try {
    await opened(store)
    const question = store.name === 'mysql' ? 'DATABASE()' : 'current_database()'
    const rows = await inTransaction(store, (sql) => sql.run(`SELECT ${question} AS name`, []))
    return String(rows?.[0]?.name ?? '')
  } finally {
    await store.close()
  }
}

/** Ends in a refusal unless everything that is needed was said. */
const consented = async (session: Session, store: Store, url: string, burden: Burden): Promise<string> => {
  const name = await nameOfDatabase(store, url)
  const said = session.text('database-is-disposable')
  if (session.isOn('yes') && said === name) return name
  const wrong = said === undefined || said === name ? '' : `"${clean(said)}" is not its name. `
  return session.refuse(
    `${wrong}This loads the database "${clean(name)}" as hard as it can${burden === 'load' ? '' : ' and breaks what works on it'}, in tables of its own. If nothing else needs ` +
      `that database now, say so: --yes --database-is-disposable ${clean(name)}`,
  )
}

/** On the same tables, for another process or another purpose. */
export const openStoreAt = async (
  { url, place }: Place,
  onStatement?: (sql: string) => void,
): Promise<Store> => {
  const store = await storeAt(url, place, onStatement)
  await opened(store)
  return store
}

export const unfinished = async (store: Store): Promise<number> => {
  const counts = await store.inspection.counts()
  return counts.reduce(
    (sum, { counts: { pending, retry, scheduled, held } }) => sum + pending + retry + scheduled + held,
    0,
  )
}

export interface Disposable {
  readonly place: Place
  /** The name of the database. */
  readonly database: string
  /** Open, on the new tables. */
  readonly store: Store
  /** Drops the tables and closes. */
  remove(): Promise<void>
}

const dropsOf = (store: Store, { kind, truth, name }: Place): readonly string[] => {
  if (kind === 'postgres') return [`DROP SCHEMA IF EXISTS "${name}" CASCADE`]
  const made = [
    ...store.schema
      .sql()
      .matchAll(
        /CREATE (TABLE|(?:OR REPLACE SQL SECURITY INVOKER )?VIEW) (?:IF NOT EXISTS )?(["`][^"`]+["`])/g,
      ),
  ]
  return [
    ...made
      // Views before what they look at.
      .toSorted(([, a = '']) => (a === 'TABLE' ? 1 : -1))
      .map(
        ([, what = '', quoted = '']) =>
          `DROP ${what.endsWith('VIEW') ? 'VIEW' : 'TABLE'} IF EXISTS ${quoted}`,
      ),
    `DROP TABLE IF EXISTS ${truth}`,
  ]
}

const TRUTH_COLUMNS: Readonly<Record<DatabaseKind, string>> = {
  postgres:
    'id text PRIMARY KEY, event_key text, position integer NOT NULL, published_at bigint NOT NULL, refusals integer NOT NULL',
  mysql:
    'id VARCHAR(36) PRIMARY KEY, event_key VARCHAR(255), position INT NOT NULL, published_at BIGINT NOT NULL, refusals INT NOT NULL',
  sqlite:
    'id TEXT PRIMARY KEY, event_key TEXT, position INTEGER NOT NULL, published_at INTEGER NOT NULL, refusals INTEGER NOT NULL',
}

const placeOf = (kind: DatabaseKind, url: string, label: string): Place => {
  const name = `posthaste_${label}_${randomBytes(5).toString('hex')}`
  // A child may have another folder to start from.
  const address = kind === 'sqlite' ? settledAddress(url, process.cwd()) : url
  if (kind === 'postgres')
    return { kind, url: address, place: { schema: name }, truth: `"${name}"."truth"`, name }
  const quote = kind === 'mysql' ? '`' : '"'
  return { kind, url: address, place: { prefix: `${name}_` }, truth: `${quote}${name}_truth${quote}`, name }
}

export const openDisposable = async (
  session: Session,
  label: string,
  burden: Burden,
  onStatement?: (sql: string) => void,
): Promise<Disposable> => {
  const url = await urlOf(session)
  const first = await storeAt(url, {})
  const kind = first.name as DatabaseKind
  const place = placeOf(kind, url, label)
  const database = await consented(session, first, url, burden)
  const store = await storeAt(place.url, place.place, onStatement)
  const remove = async (): Promise<void> => {
    try {
      for (const sql of dropsOf(store, place)) await runDdl(store, sql)
    } finally {
      await store.close()
    }
  }
  try {
    await opened(store)
    await store.schema.migrate()
    await runDdl(store, `CREATE TABLE ${place.truth} (${TRUTH_COLUMNS[kind]})`)
  } catch (error) {
    await remove().catch(() => undefined)
    throw error
  }
  return { place, database, store, remove }
}
