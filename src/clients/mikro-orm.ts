/**
 * `posthaste/clients/mikro-orm`: publish in transactions of MikroORM 7, with the entity manager that has one. Statements go
 * to the transaction of Kysely below it, because `em.execute` writes values into the text.
 *
 * MikroORM tells its subscribers when a transaction ends, so events of a transaction that the application opened go
 * the hot way too, and what it is about to write, so that entities can be asked for their events.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor, SqlRow } from '../stores/sql/sql-executor.ts'
import { Captures } from './shared/captures.ts'
import { clientOf, type Ended } from './shared/client.ts'
import { Doubts } from './shared/doubts.ts'

/** An `EntityManager`, as far as it is used here. */
export interface MikroOrmEntityManager {
  isInTransaction(): boolean
}

/** A `MikroORM` instance; `Tx` is the type of its entity managers. */
export interface MikroOrmDatabase<Tx> {
  readonly em: Tx
}

export interface MikroOrmOptions {
  /** Publish what the `pullEvents()` of entities returns that are flushed in `outbox.transaction`. Default false. */
  readonly capture?: boolean
}

/** A transaction of Kysely, or a savepoint in one. */
interface Context {
  readonly isCommitted: boolean
  readonly isRolledBack: boolean
  readonly savepointName?: string
  executeQuery(query: object): Promise<{ rows: readonly SqlRow[]; numAffectedRows?: bigint | number }>
  getExecutor(): { provideConnection<T>(consumer: (connection: Connection) => Promise<T>): Promise<T> }
}

interface Connection {
  executeQuery(query: never): Promise<unknown>
}

interface TransactionEvent {
  readonly em: object
  readonly transaction?: Context
}

interface FlushEvent {
  readonly em: Manager
  readonly uow: {
    getChangeSets(): readonly { readonly entity: object }[]
    getIdentityMap(): Iterable<object>
  }
}

interface Subscriber {
  beforeTransactionStart(event: TransactionEvent): void
  afterTransactionStart(event: TransactionEvent): Promise<void>
  afterTransactionCommit(event: TransactionEvent): void
  afterTransactionRollback(event: TransactionEvent): void
  onFlush?(event: FlushEvent): void
}

/** What is there beyond the public types above. */
interface Manager extends MikroOrmEntityManager {
  fork(): Manager
  flush(): Promise<void>
  transactional<T>(fn: (em: never) => Promise<T>): Promise<T>
  getTransactionContext(): Context | undefined
  getEventManager(): { registerSubscriber(subscriber: Subscriber): void }
}

/** A compiled query, as Kysely itself makes one of plain SQL. */
const queryOf = (sql: string, parameters: readonly unknown[]): object => ({
  sql,
  parameters,
  query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
  queryId: { queryId: 'posthaste' },
})

const isManager = (handle: object): handle is Manager =>
  typeof (handle as Partial<Manager>).getTransactionContext === 'function'

/** Follows transactions and their savepoints by what subscribers are told. */
class Watch implements Subscriber {
  readonly doubts = new Doubts()
  readonly captures = new Captures<Context>()
  readonly #beginning = new WeakMap<object, Context>()
  readonly #outer = new WeakMap<Context, Context>()
  readonly #waiting = new WeakMap<Context, Ended[]>()
  /** Connections go from one transaction to the next. */
  readonly #current = new WeakMap<Connection, Context>()

  rootOf(context: Context): Context {
    const outer = this.#outer.get(context)
    return outer === undefined ? context : this.rootOf(outer)
  }

  wait(context: Context, ended: Ended): void {
    const root = this.rootOf(context)
    this.#waiting.set(root, [...(this.#waiting.get(root) ?? []), ended])
  }

  beforeTransactionStart({ em, transaction }: TransactionEvent): void {
    if (transaction !== undefined) this.#beginning.set(em, transaction)
  }

  async afterTransactionStart({ em, transaction }: TransactionEvent): Promise<void> {
    if (transaction === undefined) return
    const outer = this.#beginning.get(em)
    this.#beginning.delete(em)
    if (outer !== undefined) this.#outer.set(transaction, outer)
    else await transaction.getExecutor().provideConnection(async (to) => this.#listen(to, transaction))
  }

  afterTransactionCommit({ transaction }: TransactionEvent): void {
    if (transaction === undefined) return
    const outer = this.#outer.get(transaction)
    this.captures.keep(transaction, outer)
    if (outer === undefined) this.#tell(transaction, 'committed')
  }

  afterTransactionRollback({ transaction }: TransactionEvent): void {
    if (transaction === undefined) return
    this.captures.undo(transaction)
    if (!this.#outer.has(transaction)) this.#tell(transaction, 'rolledBack')
  }

  #tell(root: Context, how: keyof Ended): void {
    const all = this.#waiting.get(root) ?? []
    this.#waiting.delete(root)
    for (const ended of all) ended[how]()
  }

  /** Statements of the application that fail raise a doubt. */
  #listen(connection: Connection, root: Context): void {
    const isWatched = this.#current.has(connection)
    this.#current.set(connection, root)
    if (isWatched) return
    const send = connection.executeQuery.bind(connection)
    connection.executeQuery = async (query) => {
      try {
        return await send(query)
      } catch (error) {
        this.doubts.raise(this.#current.get(connection) ?? connection)
        throw error
      }
    }
  }
}

/** The same, and entities that are written or were loaded are handed over at each flush. */
class CapturingWatch extends Watch {
  onFlush({ em, uow }: FlushEvent): void {
    const context = em.getTransactionContext()
    if (context === undefined) return
    const isOf = (tx: unknown): boolean => {
      const other = (tx as Manager).getTransactionContext()
      return other !== undefined && this.rootOf(other) === this.rootOf(context)
    }
    const entities = new Set([...uow.getChangeSets().map(({ entity }) => entity), ...uow.getIdentityMap()])
    for (const entity of entities) this.captures.take(context, entity, isOf)
  }
}

/** Give it the ORM after `init()`. Entity managers that were forked with an event manager of their own are not seen. */
export const mikroOrmTransactions = <Tx extends MikroOrmEntityManager>(
  orm: MikroOrmDatabase<Tx>,
  { capture = false }: MikroOrmOptions = {},
): Transactions<Tx, SqlExecutor> => {
  const managerOf = (tx: object): Manager => tx as Manager
  const watch = capture ? new CapturingWatch() : new Watch()
  managerOf(orm.em).getEventManager().registerSubscriber(watch)
  const contextOf = (tx: object): Context => {
    const context = managerOf(tx).getTransactionContext()
    if (context === undefined) throw new TypeError('this entity manager of mikro-orm has no transaction')
    return context
  }
  const rootOf = (tx: object): Context => watch.rootOf(contextOf(tx))
  return clientOf<Tx>({
    name: 'mikro-orm',
    doubts: watch.doubts,
    subjectOf: rootOf,
    run: (fn) => managerOf(orm.em).fork().transactional(fn),
    nested: (tx, fn) => managerOf(tx).transactional(fn),
    flush: (tx) => managerOf(tx).flush(),
    ...(capture ? { capture: watch.captures.listen } : {}),
    async send(tx, sql, params) {
      const { rows, numAffectedRows } = await contextOf(tx).executeQuery(queryOf(sql, params))
      if (rows.length > 0 || numAffectedRows === undefined) return rows
      return [{ affectedRows: Number(numAffectedRows) }]
    },
    inTransaction(handle) {
      if (!isManager(handle)) return false
      const context = handle.getTransactionContext()
      return context !== undefined && !context.isCommitted && !context.isRolledBack
    },
    observe(tx, ended) {
      watch.wait(contextOf(tx), ended)
      return true
    },
  })
}
