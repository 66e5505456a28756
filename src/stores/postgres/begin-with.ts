/**
 * BEGIN in one round trip with the first statement of the application. Its three messages go in front of those of the
 * statement, with the one Sync of the statement behind both: a server that refuses BEGIN skips the statement.
 *
 * It is `pg` itself that makes the query and reads its answer, so that the application gets what it always gets.
 */
import type { PostgresAnswer, PostgresConnection } from './driver.ts'
import { isTimeout } from './errors.ts'
import { canGroup, isCarrier, type PostgresWire, writeBegin } from './statement-group.ts'

/** A query of `pg`, as far as we use it. */
interface DriverQuery {
  callback: (error: Error | null, answer: PostgresAnswer) => void
  query_timeout?: number | undefined
  submit(wire: PostgresWire): null
  /** Writes the messages of the extended protocol; called by `submit` where there are values. */
  prepare(wire: PostgresWire): void
  handleCommandComplete(message: unknown, wire: PostgresWire): void
}

type DriverQueryClass = new (config: unknown, values: unknown) => DriverQuery

interface Beginning extends DriverQuery {
  /** False: an answer is BEGIN's. */
  readonly hasBegun: boolean
  /** Values that cannot be sent are refused by the driver; BEGIN is sent all the same. */
  readonly isWriting: boolean
  /** Called when BEGIN is answered, or never will be; null: nobody waits for that, and it comes with the statement's answer. */
  begun: (() => void) | null
}

const withBegin = (Query: DriverQueryClass): (new (config: unknown, values: unknown) => Beginning) =>
  class extends Query implements Beginning {
    hasBegun = false
    isWriting = false
    begun: Beginning['begun'] = null

    override prepare(wire: PostgresWire): void {
      writeBegin(wire)
      // The statement may take long, and nobody is to be in its way. But who does not even answer BEGIN is not there any more.
      if (this.begun !== null) wire.flush()
      this.isWriting = true
      super.prepare(wire)
      this.isWriting = false
    }

    override handleCommandComplete(message: unknown, wire: PostgresWire): void {
      if (this.hasBegun) super.handleCommandComplete(message, wire)
      this.hasBegun = true
      this.begun?.()
    }
  }

const METHODS = ['submit', 'prepare', 'handleCommandComplete'] as const
/** One application may have several versions of `pg`. */
const classes = new WeakMap<object, ReturnType<typeof withBegin> | null>()

const beginningOf = (connection: PostgresConnection): ReturnType<typeof withBegin> | null => {
  const { Query } = connection.constructor as { readonly Query?: DriverQueryClass }
  if (typeof Query !== 'function') return null
  let found = classes.get(Query)
  if (found === undefined) {
    const members = Query.prototype as Partial<DriverQuery>
    found = METHODS.every((name) => typeof members[name] === 'function') ? withBegin(Query) : null
    classes.set(Query, found)
  }
  return found
}

/** Whether BEGIN can wait for the first statement at all. */
export const canBeginWith = (connection: PostgresConnection): boolean =>
  canGroup(connection) &&
  typeof (connection.connection as Partial<PostgresWire>).flush === 'function' &&
  isCarrier(connection) &&
  beginningOf(connection) !== null

interface Config {
  readonly text?: unknown
  readonly values?: unknown
  readonly name?: unknown
  readonly rows?: unknown
  readonly submit?: unknown
  readonly callback?: unknown
  readonly query_timeout?: number
}

const configOf = ([first, values]: readonly unknown[]): Config | null => {
  if (typeof first === 'string') return { text: first, values }
  if (typeof first !== 'object' || first === null) return null
  return values === undefined ? first : { ...first, values }
}

/**
 * A text with values whose answer is awaited. All others have their ways of their own: without values it is another
 * protocol, callbacks, cursors and streams want to be called back, a name has to be prepared (see statement-group.ts), and
 * an application may have asked for promises of another kind.
 */
const isPlain = (connection: PostgresConnection, args: readonly unknown[]): boolean => {
  const config = args.length <= 2 ? configOf(args) : null
  if (config === null || connection.readyForQuery !== true) return false
  if (connection._Promise !== undefined && connection._Promise !== Promise) return false
  const { text, values, name, rows, submit, callback } = config
  if (typeof text !== 'string' || text === '' || !Array.isArray(values) || values.length === 0) return false
  if (rows !== undefined || submit !== undefined || callback !== undefined) return false
  const { parsedStatements } = connection.connection as PostgresWire
  return name === undefined || (typeof name === 'string' && parsedStatements[name] === text)
}

/** Null: BEGIN has to go alone in front of this. */
export const beginningWith = (connection: PostgresConnection, args: readonly unknown[]): Beginning | null => {
  const Query = isCarrier(connection) && isPlain(connection, args) ? beginningOf(connection) : null
  if (Query === null) return null
  const query = new Query(args[0], args[1])
  query.query_timeout = (args[0] as Config).query_timeout
  return query
}

interface Listeners {
  /**
   * Ends the connection, and says why it failed. Called before anything that was sent behind a BEGIN that failed can run
   * outside a transaction, or behind a statement that was given up.
   */
  readonly abandon: (error: unknown) => unknown
  /** Gets the answer to BEGIN, and may abandon the connection when it does not come. Null where nobody can ask for it alone. */
  readonly watch: ((begun: Promise<void>) => void) | null
}

export const sendBeginning = (
  connection: PostgresConnection,
  query: Beginning,
  { abandon, watch }: Listeners,
): Promise<PostgresAnswer> =>
  new Promise<PostgresAnswer>((resolve, reject) => {
    if (watch !== null) {
      const begun = new Promise<void>((answered) => {
        query.begun = answered
      })
      watch(begun)
    }
    query.callback = (error, answer) => {
      // What cannot be sent says nothing about BEGIN, which is on its way.
      if (error && query.isWriting) return reject(error)
      query.begun?.()
      if (!error) return resolve(answer)
      // A statement that was given up is still at work there, so nothing can follow it.
      if (query.hasBegun && !isTimeout(error)) return reject(error)
      const why = abandon(error)
      // A limit of the application's is its own to recognise.
      reject(isTimeout(error) ? error : why)
    }
    try {
      connection.query(query)
    } catch (error) {
      query.begun?.()
      reject(abandon(error))
    }
  }).catch((error: unknown) => {
    // As `pg` does it: the trace leads to whoever asked, not to the socket.
    if (error instanceof Error) Error.captureStackTrace(error)
    throw error
  })
