/**
 * What the application calls to publish. Receives drafts and handles in all the forms that are convenient; hands
 * on places and lists of drafts. There is one publisher per library in use (`via`), and they share the scopes, so
 * that an ambient publish finds its transaction whichever library opened it.
 */
import { checkTransactions } from '../check-options.ts'
import type { Draft } from '../define-event.ts'
import { ERROR_CODES, InvalidOptionError, OutboxError } from '../errors.ts'
import { shown } from '../model/shown.ts'
import { createIdGenerator } from '../model/uuid.ts'
import type { ResolvedOptions } from '../options.ts'
import type { Logger, Metrics, Runtime, Store, Transactions, TxContext } from '../spi/index.ts'
import { refuse } from './check-draft.ts'
import type { EventSource } from './frame.ts'
import type { HotIntake } from './hot-intake.ts'
import { createPreparer } from './prepare.ts'
import { createPublishStage } from './publish.ts'
import { PublishAt } from './publish-at.ts'
import type {
  Aggregate,
  OutboxTransaction,
  Publishing,
  TransactionalPublisher,
  TxHandle,
} from './publishing.ts'
import { SameDatabase } from './same-database.ts'
import { type AnyPlace, type Place, Scopes } from './scopes.ts'
import { ManualRun, runNested, runTransaction } from './transaction-runs.ts'
import type { UnderWay } from './under-way.ts'

export interface PublishingParts<Tx, E> {
  readonly store: Store<Tx, E>
  readonly transactions: Transactions<Tx, E>
  readonly options: ResolvedOptions
  readonly runtime: Runtime
  /** Guarded ones: neither may throw. */
  readonly logger: Logger
  readonly metrics: Metrics
  readonly intake: HotIntake
  readonly isClosed: () => boolean
  readonly underWay: UnderWay
  /** Opens the store if it is not; nothing to wait for when it returns nothing. */
  readonly ready?: () => Promise<void> | void
}

interface Shared<E> {
  readonly scopes: Scopes<E>
  /** Libraries that were asked to tell what they write. */
  readonly capturing: WeakSet<object>
  readonly publishAt: PublishAt<E>
  readonly underWay: UnderWay
  readonly ready: () => Promise<void> | void
  readonly requireNotClosed: () => void
}

const METHODS = [
  'publish',
  'publishMany',
  'publishSync',
  'publishFrom',
  'track',
  'transaction',
  'begin',
] as const satisfies readonly (keyof TransactionalPublisher<unknown>)[]

class LibraryPublisher<Tx, E> implements TransactionalPublisher<Tx> {
  readonly #shared: Shared<E>
  readonly #transactions: Transactions<Tx, E>

  constructor(shared: Shared<E>, transactions: Transactions<Tx, E>) {
    this.#shared = shared
    this.#transactions = transactions
    // Methods that lose their object when they are taken apart (`const { publish } = outbox`) surprise people.
    for (const name of METHODS) Object.defineProperty(this, name, { value: this[name].bind(this) })
    captureFrom(shared, transactions)
  }

  publish(...given: readonly [TxHandle<Tx>, Draft] | readonly [Draft]): Promise<string> {
    return attempt(() => {
      const { place, value } = this.#place(given)
      return publishOne(this.#shared, place, value as Draft)
    })
  }

  publishMany(
    ...given: readonly [TxHandle<Tx>, readonly Draft[]] | readonly [readonly Draft[]]
  ): Promise<readonly string[]> {
    return attempt(() => {
      const { place, value } = this.#place(given)
      return enlist(this.#shared, place, (at) => at.publish(place, value as readonly Draft[], true))
    })
  }

  publishSync(tx: TxHandle<Tx>, drafts: readonly Draft[]): readonly string[]
  publishSync(tx: TxHandle<Tx>, draft: Draft): string
  publishSync(tx: TxHandle<Tx>, given: Draft | readonly Draft[]): string | readonly string[] {
    const { place } = this.#place([tx, given])
    const { publishAt } = this.#shared
    if (Array.isArray(given)) return publishAt.publishSync(place, given as readonly Draft[], true)
    return only(publishAt.publishSync(place, [given as Draft], false))
  }

  publishFrom(tx: TxHandle<Tx>, ...aggregates: readonly Aggregate[]): Promise<readonly string[]> {
    return attempt(() => {
      const { place } = this.#place([tx, null])
      return enlist(this.#shared, place, (at) => at.publishFrom(place, aggregates))
    })
  }

  track<A extends Aggregate>(aggregate: A): A {
    this.#shared.requireNotClosed()
    return trackAt(this.#shared.scopes.requireAmbient(), aggregate)
  }

  transaction<T>(fn: (tx: Tx) => T | Promise<T>): Promise<T> {
    const { scopes, requireNotClosed } = this.#shared
    return attempt(() => {
      requireNotClosed()
      if (typeof fn !== 'function') {
        throw new InvalidOptionError(
          `transaction must be given a function, such as async (tx) => { … }; not ${shown(fn)}`,
          { option: 'transaction', value: fn },
        )
      }
      const ambient = scopes.current
      // A transaction of another library is another connection: a savepoint there would not hold this work.
      if (ambient !== null && ambient.transactions === this.#transactions) {
        return runNested(this.#shared, ambient as Place<Tx, E>, fn)
      }
      return this.#run(fn)
    })
  }

  #run<T>(fn: (tx: Tx) => T | Promise<T>): Promise<T> {
    const { underWay, ready } = this.#shared
    return underWay.during(async () => {
      const waiting = ready()
      if (waiting !== undefined) await waiting
      return await runTransaction(this.#shared, this.#transactions, fn)
    })
  }

  async begin(): Promise<OutboxTransaction<Tx>> {
    const { requireNotClosed, ready, underWay } = this.#shared
    requireNotClosed()
    const { library } = this.#transactions
    if (this.#transactions.begin === undefined) {
      const text = `${library} only runs transactions as a function: use outbox.transaction(async (tx) => { … })`
      throw new OutboxError(ERROR_CODES.unsupported, text)
    }
    const ended = underWay.begin()
    try {
      await ready()
      const opened = await this.#transactions.begin()
      return manualTransaction(this.#shared, new ManualRun(this.#shared, this.#transactions, opened, ended))
    } catch (error) {
      ended()
      throw error
    }
  }

  /** By the number of arguments, not by their look: a draft and a handle may both be any object. */
  #place(given: readonly unknown[]): { readonly place: AnyPlace<E>; readonly value: unknown } {
    const { scopes, requireNotClosed } = this.#shared
    requireNotClosed()
    if (given.length < 2) return { place: scopes.requireAmbient(), value: given[0] }
    return { place: scopes.resolve(given[0], this.#transactions), value: given[1] }
  }
}

const only = (ids: readonly string[]): string => ids[0] as string

/** A mistake found at once is a rejection too, and a promise is handed on as it is (see `enlist`). */
const attempt = <T>(fn: () => Promise<T>): Promise<T> => {
  try {
    return fn()
  } catch (error) {
    return Promise.reject(error)
  }
}

/**
 * Runs work that the end of the transaction waits for. The caller must return this very promise: when nobody
 * waits for it, the transaction does, and a wrapper around it would still end the process with its rejection.
 */
const enlist = <T, E>(
  { scopes, publishAt }: Shared<E>,
  place: AnyPlace<E>,
  work: (at: PublishAt<E>) => Promise<T>,
): Promise<T> => {
  const { scope } = place
  if (scope === null) return work(publishAt)
  return scope.track(place.frame, 'publish', () => scopes.runPublish(scope, () => work(publishAt)))
}

const publishOne = <E>(shared: Shared<E>, place: AnyPlace<E>, draft: Draft): Promise<string> =>
  enlist(shared, place, (at) => at.publish(place, [draft], false).then(only))

const trackAt = <A extends Aggregate>(place: Place, aggregate: A): A => {
  place.scope.requireOpen(place.frame)
  if (typeof aggregate?.pullEvents !== 'function') {
    throw refuse('pullEvents', 'missing', 'is missing: track() takes objects with pullEvents()')
  }
  // Into the frame of the caller: a rolled-back savepoint forgets its aggregates as well.
  place.frame.tracked.add(aggregate)
  place.frame.given.add(aggregate)
  return aggregate
}

/** What the library writes in the ambient transaction is tracked by itself. */
const captureFrom = <Tx, E>({ scopes, capturing }: Shared<E>, transactions: Transactions<Tx, E>): void => {
  if (transactions.capture === undefined || capturing.has(transactions)) return
  capturing.add(transactions)
  transactions.capture((source, isOf) => {
    const place = scopes.current
    if (place === null || place.transactions !== transactions || !isOf(place.tx)) return null
    const { frame } = place
    if (frame.tracks(source as EventSource)) return null
    frame.tracked.add(source as EventSource)
    return () => frame.owner?.untrack(source as EventSource)
  })
}

const manualTransaction = <Tx, E>(shared: Shared<E>, run: ManualRun<Tx, E>): OutboxTransaction<Tx> => {
  const place = run.place as Place<unknown, E>
  const here = (): Place<unknown, E> => {
    shared.requireNotClosed()
    place.scope.requireOpen(place.frame)
    return place
  }
  const transaction: OutboxTransaction<Tx> = {
    tx: run.place.tx,
    publish: (draft) => attempt(() => publishOne(shared, here(), draft)),
    publishMany: (drafts) => attempt(() => enlist(shared, here(), (at) => at.publish(place, drafts, true))),
    publishFrom: (...aggregates) =>
      attempt(() => enlist(shared, here(), (at) => at.publishFrom(place, aggregates))),
    track: (aggregate) => trackAt(here(), aggregate),
    run: (fn) => shared.scopes.run(run.place, () => fn(run.place.tx)),
    commit: () => run.commit(),
    rollback: () => run.rollback(),
    [Symbol.asyncDispose]: () => run.dispose(),
  }
  // Stays registered after the end, so that a late publish is told what happened.
  shared.scopes.register(transaction, run.place)
  return Object.freeze(transaction)
}

const createTxContext = <Tx, E>(scopes: Scopes<E>): TxContext<Tx> => ({
  isTransactionActive: () => scopes.current?.scope.isOpen ?? false,
  currentConnection: () => scopes.requireAmbient().tx as Tx,
  afterCommit: (callback) => void scopes.requireAmbient().frame.afterCommit.push(callback),
  afterRollback: (callback) => void scopes.requireAmbient().frame.afterRollback.push(callback),
})

export const createPublishing = <Tx, E>(parts: PublishingParts<Tx, E>): Publishing<Tx, E> => {
  const { store, options, runtime, logger, metrics, intake } = parts
  const newId = createIdGenerator(runtime)
  const capacity = { count: options.hotQueueCapacity, bytes: options.queueBytes }
  const ready = parts.ready ?? (() => undefined)
  const scopes = new Scopes<E>({ runtime, logger, metrics, intake, capacity })
  const shared: Shared<E> = {
    scopes,
    capturing: new WeakSet(),
    publishAt: new PublishAt<E>({
      scopes,
      store: store as Store<never, E>,
      stage: createPublishStage({
        store,
        runtime,
        logger,
        metrics,
        tracing: options.tracing,
        intake,
        hotLeaseMs: options.hotLeaseMs,
        lockKeys: options.keyOrder === 'locked',
        newId,
      }),
      preparer: createPreparer(options, newId, () => runtime.wallNow()),
      intake,
      sameDatabase: new SameDatabase(store as Store<never, E>, logger),
      ready,
    }),
    underWay: parts.underWay,
    ready,
    requireNotClosed() {
      if (parts.isClosed())
        throw new OutboxError(ERROR_CODES.closed, 'the outbox is closed; nothing can be published')
    },
  }
  const own = new LibraryPublisher<Tx, E>(shared, parts.transactions)
  return Object.assign(own, {
    via: <Other>(transactions: Transactions<Other, E>) => {
      checkTransactions('transactions', transactions)
      return new LibraryPublisher<Other, E>(shared, transactions)
    },
    txContext: createTxContext<Tx, E>(shared.scopes),
  })
}
