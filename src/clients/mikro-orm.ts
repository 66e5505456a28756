/**
 * `posthaste/clients/mikro-orm`: publish in transactions of MikroORM 7, with the entity manager that has one. Statements go
 * to the transaction of Kysely below it, because `em.execute` writes values into the text.
 *
 * MikroORM tells its subscribers when a transaction ends, so events of a transaction that the application opened go
 * the hot way too, and what it is about to write, so that entities can be asked for their events.
 */
import type { Transactions } from '../core/spi/index.ts'
import type { SqlExecutor, SqlValue } from '../stores/sql/sql-executor.ts'
import type { Answer } from './shared/answers.ts'
import { Captures, type Written } from './shared/captures.ts'
import { clientOf, type Ended } from './shared/client.ts'
import { Doubts } from './shared/doubts.ts'
import { requireMethods } from './shared/handles.ts'
import {
  answerOfKysely,
  directlyTo,
  type KyselyConnection,
  type KyselyExecutor,
  type KyselyResult,
  queryOf,
  SENDING,
} from './shared/kysely.ts'
import { readCapture } from './shared/options.ts'
import { watchStatements } from './shared/watch.ts'

/** An `EntityManager`, as far as it is used here. */
export interface MikroOrmEntityManager {
  isInTransaction(): boolean
}

/** A `MikroORM` instance; `EM` is the type of `orm.em`. */
export interface MikroOrmDatabase<EM> {
  readonly em: EM
}

/** What `orm.em` alone has; entity managers that are injected or handed around do not say which entities there are. */
interface KnowingEntities<Entities> {
  '~entities'?: Entities
}

/** The type of entity managers that MikroORM's package exports: what people write down, and `transactional` takes. */
export type MikroOrmTransaction<EM> =
  EM extends KnowingEntities<infer Entities>
    ? EM extends infer Plain & KnowingEntities<Entities>
      ? Plain
      : EM
    : EM

export interface MikroOrmOptions {
  /** Publish what the `pullEvents()` of entities returns that are flushed in `outbox.transaction`. Default false. */
  readonly capture?: boolean
}

/** A transaction of Kysely, or a savepoint in one. */
interface Context {
  readonly isCommitted: boolean
  readonly isRolledBack: boolean
  executeQuery(query: object): Promise<KyselyResult>
  getExecutor(): KyselyExecutor
}

interface TransactionEvent {
  readonly em: Manager
  readonly transaction?: Context
}

interface FlushEvent {
  readonly em: Manager
  readonly uow: {
    getChangeSets(): readonly { readonly entity: object }[]
    getCollectionUpdates(): readonly { readonly owner: object }[]
    getIdentityMap(): Iterable<object>
  }
}

interface EventManager {
  /** Once, however often it is called with the same one. */
  registerSubscriber(subscriber: object): void
}

/** What is there beyond the public types above. */
interface Manager extends MikroOrmEntityManager {
  fork(): Manager
  flush(): Promise<void>
  transactional<T>(fn: (em: never) => Promise<T>): Promise<T>
  /** Of `orm.em` and whatever else knows contexts: the one of this asynchronous context. Else itself. */
  getContext(validate: false): Manager
  getTransactionContext(): Context | undefined
  getEventManager(): EventManager
}

const isManager = (handle: object): handle is Manager =>
  typeof (handle as Partial<Manager>).getTransactionContext === 'function'

const isOpen = ({ isCommitted, isRolledBack }: Context): boolean => !isCommitted && !isRolledBack

const connectionOf = (context: Context): Promise<KyselyConnection> =>
  context.getExecutor().provideConnection(async (connection) => connection)

/** Follows transactions and their savepoints by what subscribers are told. */
class TransactionWatch {
  readonly doubts = new Doubts()
  readonly captures = new Captures<Context>()
  readonly #seen = new WeakSet<Context>()
  readonly #direct = new WeakMap<Context, ReturnType<typeof directlyTo>>()
  /** The last transaction of each connection. */
  readonly #roots = new WeakMap<KyselyConnection, Context>()
  readonly #beginning = new WeakMap<object, Context>()
  readonly #outer = new WeakMap<Context, Context>()
  /** What is open in a transaction, itself first. */
  readonly #open = new WeakMap<Context, Context[]>()
  readonly #managers = new WeakMap<Context, Manager>()
  readonly #waiting = new WeakMap<Context, Ended[]>()

  rootOf(context: Context): Context {
    const outer = this.#outer.get(context)
    return outer === undefined ? context : this.rootOf(outer)
  }

  /** Whose next savepoint is in everything that is open: what another one writes there it would take for stored. */
  innermostOf(context: Context): Manager | undefined {
    const last = this.#open.get(this.rootOf(context))?.at(-1)
    return last && this.#managers.get(last)
  }

  async send(context: Context, sql: string, params: readonly SqlValue[]): Promise<Answer> {
    const send = this.#direct.get(this.rootOf(context))
    if (send !== undefined) return await send(sql, params)
    return answerOfKysely(await context.executeQuery(queryOf(sql, params)))
  }

  /** False for one whose beginning was not told of: then its end will not be either. */
  wait(context: Context, ended: Ended): boolean {
    const root = this.rootOf(context)
    if (!this.#seen.has(root)) return false
    this.#waiting.set(root, [...(this.#waiting.get(root) ?? []), ended])
    return true
  }

  beforeTransactionStart({ em, transaction }: TransactionEvent): void {
    if (transaction !== undefined) this.#beginning.set(em, transaction)
  }

  async afterTransactionStart({ em, transaction }: TransactionEvent): Promise<void> {
    if (transaction === undefined) return
    this.#seen.add(transaction)
    this.#managers.set(transaction, em)
    const outer = this.#beginning.get(em)
    this.#beginning.delete(em)
    if (outer !== undefined) {
      this.#outer.set(transaction, outer)
      this.#open.get(this.rootOf(outer))?.push(transaction)
      return
    }
    this.#open.set(transaction, [transaction])
    this.#follow(transaction, await connectionOf(transaction))
  }

  isUnseen(context: Context): boolean {
    return !this.#direct.has(this.rootOf(context))
  }

  /** One whose beginning was not told of: MySQL may have rolled it back already, and stores what comes next on its own. */
  async join(context: Context): Promise<void> {
    if (!this.isUnseen(context)) return
    const connection = await connectionOf(context)
    const root = this.#roots.get(connection)
    // A savepoint in one that was joined before.
    if (root !== undefined && root !== context && isOpen(root)) this.#outer.set(context, root)
    else this.#follow(context, connection)
    this.doubts.raise(this.rootOf(context))
  }

  #follow(root: Context, connection: KyselyConnection): void {
    watchStatements(connection, SENDING, this.doubts, root)
    this.#direct.set(root, directlyTo(connection))
    this.#roots.set(connection, root)
  }

  afterTransactionCommit({ transaction }: TransactionEvent): void {
    if (transaction === undefined) return
    for (const ended of this.#end(transaction)) this.captures.keep(ended, this.#outer.get(ended))
    if (!this.#outer.has(transaction)) this.#tell(transaction, 'committed')
  }

  afterTransactionRollback({ transaction }: TransactionEvent): void {
    if (transaction === undefined) return
    for (const ended of this.#end(transaction)) this.captures.undo(ended)
    if (!this.#outer.has(transaction)) this.#tell(transaction, 'rolledBack')
  }

  /** It ends with all that is open in it, innermost first. */
  #end(context: Context): readonly Context[] {
    const open = this.#open.get(this.rootOf(context)) ?? []
    const at = open.indexOf(context)
    return at < 0 ? [context] : open.splice(at).reverse()
  }

  #tell(root: Context, how: keyof Ended): void {
    const all = this.#waiting.get(root) ?? []
    this.#waiting.delete(root)
    for (const ended of all) ended[how]()
  }
}

/** Hands over entities that are written or were loaded, at each flush. */
class FlushWatch {
  readonly #transactions: TransactionWatch

  constructor(transactions: TransactionWatch) {
    this.#transactions = transactions
  }

  onFlush({ em, uow }: FlushEvent): void {
    const context = em.getTransactionContext()
    if (context === undefined) return
    const { captures } = this.#transactions
    const root = this.#transactions.rootOf(context)
    const isOf = (tx: unknown): boolean => {
      const other = (tx as Manager).getTransactionContext()
      return other !== undefined && this.#transactions.rootOf(other) === root
    }
    const changed = uow.getChangeSets().map(({ entity }) => entity)
    const written = new Set([...changed, ...uow.getCollectionUpdates().map(({ owner }) => owner)])
    for (const entity of written) captures.take(root, context, entity, isOf)
    for (const entity of uow.getIdentityMap()) {
      if (!written.has(entity)) captures.take(root, context, entity, isOf, false)
    }
  }
}

interface Watches {
  readonly transactions: TransactionWatch
  readonly flushes: FlushWatch
}

/** One for all clients of an ORM: there is no way to take a subscriber back. */
const watches = new WeakMap<EventManager, Watches>()

const watchesOf = (events: EventManager): Watches => {
  const known = watches.get(events)
  if (known !== undefined) return known
  const transactions = new TransactionWatch()
  const made = { transactions, flushes: new FlushWatch(transactions) }
  watches.set(events, made)
  return made
}

/** Give it the ORM after `init()`. */
export const mikroOrmTransactions = <EM extends MikroOrmEntityManager>(
  orm: MikroOrmDatabase<EM>,
  options: MikroOrmOptions = {},
): Transactions<MikroOrmTransaction<EM>, SqlExecutor> => {
  type Tx = MikroOrmTransaction<EM> & object
  requireMethods('an instance of MikroORM', (orm as Partial<typeof orm> | null)?.em, [
    'transactional',
    'getEventManager',
    'getTransactionContext',
  ])
  const capture = readCapture('mikroOrmTransactions', options)
  const managerOf = (tx: object): Manager => tx as Manager
  const events = managerOf(orm.em).getEventManager()
  const { transactions: watch, flushes } = watchesOf(events)
  events.registerSubscriber(watch)
  if (capture) events.registerSubscriber(flushes)
  const contextOf = (tx: object): Context => {
    const context = managerOf(tx).getTransactionContext()
    if (context === undefined) throw new TypeError('this entity manager of mikro-orm has no transaction')
    return context
  }
  const listeners: Written[] = []
  /** An entity manager forgets its own at the end. */
  const contexts = new WeakMap<object, Context>()
  return clientOf<Tx>({
    name: 'mikro-orm',
    doubts: watch.doubts,
    subjectOf: (tx) => watch.rootOf(contextOf(tx)),
    run: (fn) =>
      managerOf(orm.em)
        .fork()
        .transactional((em) => {
          contexts.set(em, contextOf(em))
          watch.captures.hear(contextOf(em), listeners)
          return fn(em)
        }),
    hasCommitted: (tx) => contexts.get(tx)?.isCommitted === true,
    nested: (tx, fn) => (watch.innermostOf(contextOf(tx)) ?? managerOf(tx)).transactional(fn),
    flush: (tx) => managerOf(tx).flush(),
    ...(capture ? { capture: (written) => void listeners.push(written) } : {}),
    isUnseen: (tx) => watch.isUnseen(contextOf(tx)),
    join: (tx) => watch.join(contextOf(tx)),
    send: (tx, sql, params) => watch.send(contextOf(tx), sql, params),
    inTransaction(handle) {
      if (!isManager(handle)) return false
      const context = handle.getTransactionContext()
      return context !== undefined && isOpen(context)
    },
    standsFor: (handle) => (isManager(handle) ? (handle.getContext(false) as object as Tx) : handle),
    observe: (tx, ended) => watch.wait(contextOf(tx), ended),
  })
}
