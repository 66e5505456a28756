/** What is done to the database of a run by hand, beside the crew: its tables, a look, a fault. */
import { randomBytes } from 'node:crypto'
import type { LeftLine, SampleLine, TransitionLine, TruthLine } from '../logs.ts'

export interface Hand extends AsyncDisposable {
  /** After the migration: the truth. */
  setUp(): Promise<void>
  /** Triggers that note every transition. */
  watchTransitions(): Promise<void>
  /** Deliveries that are neither finished nor dead. */
  unfinished(): Promise<number>
  /** A write of some kilobytes is confirmed. */
  ping(): Promise<void>
  /** Ends some of the other connections on the server; how many. */
  killConnections(share: number): Promise<number>
  /** Keeps a snapshot (on SQLite: the write lock) for so long. */
  holdTransaction(ms: number): Promise<void>
  /** Of the outbox's own tables and indexes. */
  sizes(): Promise<Sizes>
  truth(): AsyncIterable<TruthLine>
  transitions(): AsyncIterable<TransitionLine>
  left(): AsyncIterable<LeftLine>
}

export type Sizes = Pick<SampleLine, 'tables' | 'indexes'>

export type Row = Readonly<Record<string, unknown>>

const PAGE = 5_000

/** Different at every call, so that no server stores it in less. */
export const filler = (): string => randomBytes(4_000).toString('hex')

/** What a run makes beside the outbox. */
export const OWN_TABLES: readonly string[] = ['truth', 'transitions', 'pings']

/** What a hand needs to read its tables. */
interface Reading {
  rows(sql: string): Promise<readonly Row[]>
  /** The full name of a table. */
  table(name: string): string
  /** Makes text of a column with an id. */
  idText(column: string): string
}

/** Looks and logs, which are the same SQL everywhere. */
export const readings = ({
  rows,
  table,
  idText,
}: Reading): Pick<Hand, 'unfinished' | 'truth' | 'transitions' | 'left'> => {
  /** In the order of a column that grows, a page at a time. */
  async function* pages<T>(name: string, translate: (row: Row) => T): AsyncGenerator<T> {
    for (let after = 0; ; ) {
      const page = await rows(
        `SELECT * FROM ${table(name)} WHERE number > ${after} ORDER BY number LIMIT ${PAGE}`,
      )
      for (const row of page) yield translate(row)
      if (page.length < PAGE) return
      after = Number(page.at(-1)?.number)
    }
  }
  const deliveries = table('deliveries')
  return {
    async unfinished() {
      const [row] = await rows(`SELECT count(*) AS count FROM ${deliveries} WHERE status <> 3`)
      return Number(row?.count)
    },
    truth: () => pages('truth', truthOf),
    transitions: () => pages('transitions', transitionOf),
    async *left() {
      const columns = `${idText('event_id')} AS event, destination, status, attempts`
      yield* (await rows(`SELECT ${columns} FROM ${deliveries}`)).map(leftOf)
    },
  }
}

const orNull = (value: unknown): number | null =>
  value === null || value === undefined ? null : Number(value)

const truthOf = (row: Row): TruthLine => ({
  id: String(row.id),
  key: row.event_key === null ? null : String(row.event_key),
  position: Number(row.position),
  body: JSON.parse(String(row.body)) as TruthLine['body'],
})

const transitionOf = (row: Row): TransitionLine => ({
  of: row.source as TransitionLine['of'],
  op: row.op as TransitionLine['op'],
  delivery: String(row.delivery),
  event: String(row.event),
  destination: String(row.destination),
  run: Number(row.run),
  was: orNull(row.was),
  is: orNull(row.became),
  attemptsWere: orNull(row.attempts_were),
  attempts: orNull(row.attempts),
})

const leftOf = (row: Row): LeftLine => ({
  event: String(row.event),
  destination: String(row.destination),
  status: Number(row.status),
  attempts: Number(row.attempts),
})

/** From rows of name, kind (`r` is a table) and bytes, and rows of name and rows. */
export const sizesOf = (sizes: readonly Row[], counted: readonly Row[]): Sizes => {
  const rows = new Map(counted.map((row) => [String(row.name), Number(row.rows)]))
  const bytes = sizes.map((row) => [String(row.name), row.kind === 'r', Number(row.bytes)] as const)
  return {
    tables: Object.fromEntries(
      bytes.flatMap(([name, table, size]) =>
        table ? [[name, { rows: rows.get(name) ?? 0, bytes: size }]] : [],
      ),
    ),
    indexes: Object.fromEntries(bytes.flatMap(([name, table, size]) => (table ? [] : [[name, size]]))),
  }
}

/** Columns of the table that triggers write to, after its number. */
export const TRANSITION_COLUMNS =
  'source, op, delivery, event, destination, run, was, became, attempts_were, attempts'

interface Trigger {
  readonly of: 'deliveries' | 'finished'
  readonly op: 'insert' | 'update' | 'delete'
  /** What goes into the columns, as an expression over OLD and NEW; `id` makes text of an id. */
  readonly values: string
}

/** One trigger per table and kind of change, in SQL that all databases here share. */
export const triggers = (idText: (column: string) => string): Trigger[] =>
  (['deliveries', 'finished'] as const).flatMap((of) =>
    (['insert', 'update', 'delete'] as const).map((op) => {
      const row = op === 'delete' ? 'OLD' : 'NEW'
      const was = op === 'insert' ? 'NULL, ' : 'OLD.status, '
      const is = op === 'delete' ? 'NULL, ' : 'NEW.status, '
      const attemptsWere = op === 'insert' ? 'NULL, ' : 'OLD.attempts, '
      const attempts = op === 'delete' ? 'NULL' : 'NEW.attempts'
      const ids = `${idText(`${row}.id`)}, ${idText(`${row}.event_id`)}`
      const values = `'${of}', '${op}', ${ids}, ${row}.destination, ${row}.run, ${was}${is}${attemptsWere}${attempts}`
      return { of, op, values }
    }),
  )
