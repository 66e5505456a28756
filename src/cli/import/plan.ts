/** What is moved from where: a shape and the flags on top of it, held against the table that is really there. */
import type { LoadedOutbox } from '../../config/load-config.ts'
import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
import { hintFor } from '../../core/model/unknown-names.ts'
import type { Transactions } from '../../core/spi/index.ts'
import type { Session } from '../session.ts'
import { type DraftRules, FORMATS, type Format, headerAlias } from './drafts.ts'
import { checkedName, splitTable } from './names.ts'
import {
  type Condition,
  DATABASES,
  type DatabaseKind,
  ROLES,
  type Role,
  SHAPES,
  type Shape,
} from './shapes.ts'
import { type Assignment, type Column, columnsOf, isSameTable, type Reading, type Sql } from './statements.ts'

export const TABLE = 'table'

export interface Plan {
  readonly from: string
  readonly source: string
  readonly reading: Reading
  readonly rules: DraftRules
  readonly done: readonly Assignment[] | 'delete'
  /** Rows that a worker has, or died with; none that could be told where nothing says so. */
  readonly inFlight: Condition | null
  readonly dead: Condition | null
}

const isDatabase = (name: string): name is DatabaseKind => (DATABASES as readonly string[]).includes(name)

type Executing = Transactions<unknown, Sql>

/** One transaction for questions. */
export const asking = async <T>({ host, outbox }: LoadedOutbox, fn: (sql: Sql) => Promise<T>): Promise<T> => {
  const transactions = host.store.transactions as Executing
  return await outbox.via(transactions).transaction(async (tx) => await fn(transactions.executor(tx)))
}

/** `COLUMN=VALUE` */
const pairOf = (session: Session, flag: string, text: string): readonly [string, string] => {
  const [, name, value] = /^([^=]+)=([\s\S]*)$/.exec(text) ?? []
  if (name === undefined || value === undefined || checkedName(name) === null)
    session.refuse(`--${flag} must be COLUMN=VALUE, not "${text}"`)
  return [name as string, value as string]
}

const namedColumn = (session: Session, flag: string): string | undefined => {
  const name = session.text(flag)
  if (name !== undefined && checkedName(name) === null)
    session.refuse(`--${flag} cannot be the name of a column: "${name}"`)
  return name
}

/** Several values of one column are alternatives; of several columns each must fit. */
const conditionOf = (pairs: readonly (readonly [string, string])[]): Condition => {
  const byColumn = new Map<string, string[]>()
  for (const [column, value] of pairs) byColumn.set(column, [...(byColumn.get(column) ?? []), value])
  return [...byColumn]
}

const shapeOf = (session: Session): readonly [string, Shape | null] => {
  const from = session.text('from') ?? TABLE
  const shape = SHAPES[from] ?? null
  if (shape !== null || from === TABLE) return [from, shape]
  const names = [...Object.keys(SHAPES), TABLE]
  return session.refuse(`--from does not know "${from}"${hintFor(from, new Set(names))}`)
}

/** Finds columns by the names that a flag or the shape gives, and remembers what is missing. */
class Finder {
  readonly missing: string[] = []
  readonly #session: Session
  readonly #all: readonly Column[]
  readonly #database: DatabaseKind

  constructor(session: Session, all: readonly Column[], database: DatabaseKind) {
    this.#session = session
    this.#all = all
    this.#database = database
  }

  find(names: readonly string[]): Column | null {
    const isSame = (a: string, b: string): boolean =>
      this.#database === 'postgres' ? a === b : a.toLowerCase() === b.toLowerCase()
    for (const name of names) {
      const found = this.#all.find((column) => isSame(column.name, name))
      if (found !== undefined) return found
    }
    return null
  }

  required(names: readonly string[]): Column {
    const found = this.find(names)
    if (found === null) this.missing.push(names.join(' or '))
    return found ?? { name: names[0] ?? '', kind: 'text' }
  }

  /** A flag's column must be there; one that only a shape hopes for need not. */
  role(role: Role, shape: Shape | null): Column | null {
    if (role === 'key' && this.#session.isOn('no-key')) return null
    const said = namedColumn(this.#session, role)
    if (said !== undefined) return this.required([said])
    const names = shape?.columns[role]
    if (names === undefined) return null
    return ['id', 'type', 'payload'].includes(role) ? this.required(names) : this.find(names)
  }
}

const doneOf = (session: Session, shape: Shape | null, finder: Finder): Plan['done'] => {
  const said = session.list('done').map((text) => pairOf(session, 'done', text))
  if (session.isOn('delete')) {
    if (said.length > 0) session.refuse('--done and --delete exclude each other')
    return 'delete'
  }
  if (said.length > 0) return said.map(([column, value]) => [finder.required([column]).name, value])
  if (shape === null)
    return session.refuse('say how a moved row is told to be done: --done COLUMN=VALUE, or --delete')
  return shape.done.flatMap(([names, value], index) => {
    // The state is what counts; when it happened is written where there is a place for it.
    const column = index === 0 ? finder.required(names) : finder.find(names)
    return column === null ? [] : [[column.name, value] as const]
  })
}

interface States {
  readonly pending: Condition
  readonly inFlight: Condition | null
  readonly dead: Condition | null
}

const statesOf = (session: Session, shape: Shape | null, finder: Finder): States => {
  const said = session.list('pending').map((text) => pairOf(session, 'pending', text))
  if (said.length > 0) {
    const pending = conditionOf(said).map(([name, values]) => [finder.required([name]).name, values] as const)
    return { pending, inFlight: null, dead: null }
  }
  if (shape === null) {
    if (session.isOn('delete')) return { pending: [], inFlight: null, dead: null }
    return session.refuse('say which rows are unfinished: --pending COLUMN=VALUE, or COLUMN=@null')
  }
  const { name } = finder.required(shape.state)
  const condition = (values: readonly string[]): Condition | null =>
    values.length === 0 ? null : [[name, values]]
  const taken = [
    ...shape.pending,
    ...(session.isOn('in-flight') ? shape.inFlight : []),
    ...(session.isOn('dead') ? shape.dead : []),
  ]
  return { pending: [[name, taken]], inFlight: condition(shape.inFlight), dead: condition(shape.dead) }
}

const formatOf = (session: Session): Format | null => {
  const text = session.text('format')
  if (text === undefined || (FORMATS as readonly string[]).includes(text))
    return (text ?? null) as Format | null
  return session.refuse(`--format must be one of ${FORMATS.join(', ')}, not "${text}"`)
}

const headersOf = (session: Session, shape: Shape | null, finder: Finder): ReadonlyMap<string, Column> => {
  const found = new Map<string, Column>()
  for (const [header, name] of Object.entries(shape?.headerColumns ?? {})) {
    const column = finder.find([name])
    if (column !== null) found.set(header, column)
  }
  for (const text of session.list('header')) {
    const [header, name] = pairOf(session, 'header', text)
    found.set(header, finder.required([name]))
  }
  return found
}

const tableOf = async (
  session: Session,
  loaded: LoadedOutbox,
  kind: DatabaseKind,
  source: string,
): Promise<{ readonly table: readonly string[]; readonly columns: readonly Column[] }> => {
  const table = splitTable(source)
  if (table === null) return session.refuse(`--source cannot be the name of a table: "${source}"`)
  const columns = await asking(loaded, (sql) => columnsOf(sql, kind, table))
  if (columns.length === 0) {
    const hint = session.text('source') === undefined ? '; name it with --source' : ''
    throw new OutboxError(ERROR_CODES.notFound, `there is no table ${source} in this database${hint}`)
  }
  const schema = loaded.host.store.schema.sql()
  for (const [, own = ''] of schema.matchAll(/CREATE TABLE (?:IF NOT EXISTS )?(\S+)/g)) {
    if (await asking(loaded, (sql) => isSameTable(sql, kind, table, own)))
      session.refuse(`${source} is a table of this outbox itself`)
  }
  return { table, columns }
}

export const planOf = async (session: Session, loaded: LoadedOutbox): Promise<Plan> => {
  const [from, shape] = shapeOf(session)
  const kind = loaded.host.store.name
  if (!isDatabase(kind)) return session.refuse(`rows cannot be moved into a ${kind} store`)
  if (shape !== null && !shape.databases.includes(kind))
    session.refuse(
      `--from ${from} is a table of ${shape.databases.join(' or ')}, and this outbox is on ${kind}`,
    )
  const source = session.text('source') ?? shape?.table
  if (source === undefined) return session.refuse('name the table with --source')
  const { table, columns: all } = await tableOf(session, loaded, kind, source)
  const finder = new Finder(session, all, kind)
  const type = session.text('type-is') ?? null
  if (type !== null && session.text('type') !== undefined)
    session.refuse('--type and --type-is exclude each other')
  const columns = new Map<Role, Column>()
  for (const role of ROLES) {
    const column = role === 'type' && type !== null ? null : finder.role(role, shape)
    if (column !== null) columns.set(role, column)
  }
  for (const role of ['id', 'payload', ...(type === null ? (['type'] as const) : [])] as const) {
    if (!columns.has(role))
      session.refuse(
        `name the column of the ${role} with --${role}${role === 'type' ? ', or the type itself with --type-is' : ''}`,
      )
  }
  const states = statesOf(session, shape, finder)
  const done = doneOf(session, shape, finder)
  const headers = headersOf(session, shape, finder)
  const id = columns.get('id') as Column
  const order = orderOf(session, shape, finder, id)
  if (finder.missing.length > 0) {
    const names = all.map(({ name }) => name).join(', ')
    session.refuse(`${source} has no column ${finder.missing.join(', ')}; it has: ${names}`)
  }
  const typeColumn = columns.get('type')
  const prefix = shape?.exceptTypes
  return {
    from,
    source,
    reading: {
      kind,
      table,
      id,
      payload: columns.get('payload') as Column,
      columns: [
        ...[...columns].filter(([role]) => role !== 'id'),
        ...[...headers.values()].map((column, index) => [headerAlias(index), column] as const),
      ],
      pending: states.pending,
      exceptTypes:
        prefix === undefined || typeColumn === undefined ? null : { column: typeColumn.name, prefix },
      order,
    },
    rules: {
      columns,
      headers,
      type,
      format: formatOf(session),
      contentType: session.text('content-type') ?? 'application/octet-stream',
      nowMs: Date.now(),
    },
    done,
    inFlight: states.inFlight,
    dead: states.dead,
  }
}

/** Ends with the id, so that it is one order. */
const orderOf = (session: Session, shape: Shape | null, finder: Finder, id: Column): readonly string[] => {
  const said = session.text('order')?.split(',')
  if (said?.some((name) => checkedName(name) === null))
    session.refuse('--order must be columns with commas between')
  const created = session.text('created')
  const found =
    said?.map((name) => finder.required([name]).name) ??
    (created !== undefined
      ? [finder.required([created]).name]
      : (shape?.order ?? []).flatMap((names) => finder.find(names)?.name ?? []))
  return found.includes(id.name) ? found : [...found, id.name]
}
