/**
 * Part of stage 2: finds the transaction that a publish belongs to. Receives a handle, or nothing and looks at
 * the ambient context; hands on its scope. Guarantees that a scope is found only while its transaction lives:
 * handles of pooled connections are used again, and what belongs to one transaction must not reach the next.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { ERROR_CODES, TransactionError } from '../errors.ts'
import type { Transactions } from '../spi/index.ts'
import { CommitScope, type ScopeParts } from './commit.ts'
import type { Frame } from './frame.ts'
import { endedError } from './frame-errors.ts'

/** A place in a transaction: where publishing happens, and with which handle. */
export interface Place<Tx = unknown, E = unknown> {
  readonly transactions: Transactions<Tx, E>
  readonly tx: Tx
  readonly scope: CommitScope
  readonly frame: Frame
}

/** A publish under way, known to whatever it asks of the application: a schema, or an aggregate. */
interface Publishing {
  readonly scope: CommitScope
  readonly around: Publishing | undefined
  isOver: boolean
}

/** What the library does to begin and end a savepoint, known to whatever it asks of the application: hooks. */
interface Nesting {
  readonly frame: Frame
  readonly around: Nesting | undefined
}

/** A transaction whose commit nobody will tell us about. */
export interface UnobservedPlace<Tx = unknown, E = unknown> {
  readonly transactions: Transactions<Tx, E>
  readonly tx: Tx
  readonly scope: null
}

export type AnyPlace<E> = Place<unknown, E> | UnobservedPlace<unknown, E>

const isObject = (value: unknown): value is object =>
  (typeof value === 'object' && value !== null) || typeof value === 'function'

/** Where code runs, as one outbox sees it. */
interface Here {
  /** Its scopes. */
  readonly owner: object
  readonly place: Place | undefined
  readonly publishing: Publishing | undefined
  readonly nesting: Nesting | undefined
  /** The same of other outboxes. */
  readonly others: Here | undefined
}

/** One storage for all outboxes, because every promise of the process pays for each that was ever used. */
const storage = new AsyncLocalStorage<Here>()

const without = (owner: object, here: Here | undefined): Here | undefined => {
  if (here === undefined || here.owner === owner) return here?.others
  return { ...here, others: without(owner, here.others) }
}

/** Of those around, the ones that are not over: what is over must not be kept, and in its own function nobody waits. */
const outsideOf = (frame: Frame, nesting: Nesting | undefined): Nesting | undefined => {
  if (nesting === undefined) return undefined
  const around = outsideOf(frame, nesting.around)
  if (nesting.frame === frame || nesting.frame.state !== 'open') return around
  return around === nesting.around ? nesting : { frame: nesting.frame, around }
}

export class Scopes<E> {
  readonly #places = new WeakMap<object, Place<unknown, E>>()
  /** Handles of transactions that we saw end; a library that cannot tell is then still not fooled. */
  readonly #ended = new WeakSet<object>()
  readonly #parts: ScopeParts

  constructor(parts: ScopeParts) {
    this.#parts = parts
  }

  /** A transaction begins with this handle. */
  open<Tx>(transactions: Transactions<Tx, E>, tx: Tx): Place<Tx, E> {
    const scope = new CommitScope(this.#parts)
    const place = { transactions, tx, scope, frame: scope.root }
    this.register(tx, place)
    return place
  }

  /** Another object by which the place is known: a nested transaction's own handle, or our manual one. */
  register<Tx>(handle: unknown, place: Place<Tx, E>): void {
    if (!isObject(handle)) return
    this.#ended.delete(handle)
    this.#places.set(handle, place as Place<unknown, E>)
  }

  /** Only if it still stands for this place: the next transaction may have the same handle already. */
  forget<Tx>(handle: unknown, place: Place<Tx, E>): void {
    if (!isObject(handle) || this.#places.get(handle) !== place) return
    this.#places.delete(handle)
    this.#ended.add(handle)
  }

  run<Tx, T>(place: Place<Tx, E>, fn: () => T): T {
    const nesting = outsideOf(place.frame, this.#here?.nesting)
    return this.#enter({ place: place as Place, publishing: this.#publishing, nesting }, fn)
  }

  /** What the library does around the function of a nested transaction. */
  runAround<T>(frame: Frame, fn: () => T): T {
    const here = this.#here
    const nesting = { frame, around: outsideOf(frame, here?.nesting) }
    return this.#enter({ place: here?.place, publishing: this.#publishing, nesting }, fn)
  }

  /** Whether a savepoint of this transaction that begins or ends waits for the caller: then the caller must not wait for that. */
  isTurning(scope: CommitScope): boolean {
    const { turning } = scope
    if (turning === null) return false
    for (let one = this.#here?.nesting; one !== undefined; one = one.around)
      if (one.frame === turning) return true
    return false
  }

  async runPublish<T>(scope: CommitScope, fn: () => Promise<T>): Promise<T> {
    const publishing: Publishing = { scope, around: this.#publishing, isOver: false }
    try {
      const here = this.#here
      return await this.#enter({ place: here?.place, publishing, nesting: here?.nesting }, fn)
    } finally {
      publishing.isOver = true
    }
  }

  /** Whether a publish of this transaction waits for the caller: then the caller must not wait for that. */
  isPublishingIn(scope: CommitScope): boolean {
    for (let one = this.#publishing; one !== undefined; one = one.around)
      if (!one.isOver && one.scope === scope) return true
    return false
  }

  /** The innermost one that is not over: what is over must not be kept by those that began in it. */
  get #publishing(): Publishing | undefined {
    let one = this.#here?.publishing
    while (one?.isOver === true) one = one.around
    return one
  }

  get #ambient(): Place<unknown, E> | undefined {
    return this.#here?.place as Place<unknown, E> | undefined
  }

  get #here(): Here | undefined {
    let here = storage.getStore()
    while (here !== undefined && here.owner !== this) here = here.others
    return here
  }

  #enter<T>(where: Pick<Here, 'place' | 'publishing' | 'nesting'>, fn: () => T): T {
    return storage.run({ owner: this, ...where, others: without(this, storage.getStore()) }, fn)
  }

  /** Whether the caller runs inside of a savepoint of this transaction that is open, or that waits for it. */
  isNestedIn(scope: CommitScope): boolean {
    if (this.isTurning(scope)) return true
    const ambient = this.#ambient
    return ambient?.scope === scope && ambient.frame !== scope.root && !ambient.frame.closed
  }

  /** The ambient place, if its transaction has not ended. */
  get current(): Place<unknown, E> | null {
    const place = this.#ambient
    return place === undefined || place.scope.hasEnded ? null : place
  }

  /** For calls without a handle. */
  requireAmbient(): Place<unknown, E> {
    const place = this.#ambient
    if (place === undefined) {
      throw new TransactionError(
        ERROR_CODES.noTransaction,
        'there is no transaction here. Call this inside outbox.transaction(async (tx) => { … }), or hand over the ' +
          'transaction of your library: outbox.publish(tx, event).',
      )
    }
    place.scope.requireOpen(place.frame)
    return place
  }

  /** For calls with a handle: ours, the library's, or one that the user opened without us. */
  resolve<Tx>(given: unknown, transactions: Transactions<Tx, E>): AnyPlace<E> {
    if (!isObject(given) || isDraft(given)) throw noHandle(given, transactions.library)
    const handle = (transactions.standsFor?.(given as Tx) ?? given) as object
    const known = this.#places.get(handle)
    if (known !== undefined) return this.#resolveKnown(known, handle)
    const inside = transactions.inTransaction(handle as Tx)
    if (this.#ended.has(handle) && (inside !== true || this.#isLate(handle))) throw endedError()
    if (inside === false) throw noTransaction(transactions.library)
    this.#ended.delete(handle)
    return this.#observe(handle as Tx, transactions)
  }

  #resolveKnown(known: Place<unknown, E>, handle: object): Place<unknown, E> {
    const ambient = this.#ambient
    if (ambient?.scope !== known.scope && this.#isLate(handle)) throw endedError()
    const place =
      ambient !== undefined && ambient.scope === known.scope && ambient.tx === known.tx ? ambient : known
    place.scope.requireOpen(place.frame)
    if (known.transactions.inTransaction(known.tx) === false) throw endedError()
    return place
  }

  /** Code of an earlier transaction, whose connection may be used by another one by now. */
  #isLate(handle: object): boolean {
    const ambient = this.#ambient
    return ambient !== undefined && ambient.tx === handle && !ambient.scope.isOpen
  }

  #observe<Tx>(tx: Tx, transactions: Transactions<Tx, E>): AnyPlace<E> {
    const unobserved = { transactions: transactions as Transactions<unknown, E>, tx, scope: null }
    if (transactions.observe === undefined) return unobserved
    const place = this.open(transactions, tx)
    const end = (ending: 'committed' | 'rolledBack') => () => {
      this.forget(tx, place)
      place.scope.finish(ending)
    }
    const observed = transactions.observe(tx, { committed: end('committed'), rolledBack: end('rolledBack') })
    if (observed) return place as Place<unknown, E>
    this.#places.delete(tx as object)
    return unobserved
  }
}

const isDraft = (handle: object): boolean =>
  'type' in handle && typeof handle.type === 'string' && ('payload' in handle || 'json' in handle)

const noHandle = (given: unknown, library: string): TransactionError => {
  const what = isObject(given) ? 'an event' : given === null ? 'null' : typeof given
  return new TransactionError(
    ERROR_CODES.noTransaction,
    `the transaction comes first, and ${what} was given in its place: outbox.publish(tx, event), where tx is the handle ` +
      `that outbox.transaction or ${library} gives you.`,
    { library },
  )
}

const noTransaction = (library: string): TransactionError =>
  new TransactionError(
    ERROR_CODES.noTransaction,
    `this is no handle of ${library} that is in a transaction now (one of another library, or of a transaction that is ` +
      'over, is none), so the event could be stored without its data. Open one with ' +
      'Posthaste: await outbox.transaction(async (tx) => { …; await outbox.publish(tx, event) }), or begin one with ' +
      `${library} and pass the handle it gives you.`,
    { library },
  )
