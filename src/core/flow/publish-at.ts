/**
 * Joins stages 1 and 2: takes drafts through preparation, plan and insert at a place in a transaction, and
 * leaves with its scope what may go the hot way. The drafts are read before the first await, so that the caller
 * may go on using its objects.
 */
import type { Draft } from '../define-event.ts'
import { ERROR_CODES, OutboxError, TransactionError } from '../errors.ts'
import type { Mark, OuterMark, Store } from '../spi/index.ts'
import { refuse } from './check-draft.ts'
import type { CommitScope } from './commit.ts'
import type { EventSource } from './frame.ts'
import type { HotIntake } from './hot-intake.ts'
import { MAX_EVENTS_PER_CALL, type PreparedEvents, type Preparer } from './prepare.ts'
import type { Budget, PublishStage } from './publish.ts'
import type { SameDatabase } from './same-database.ts'
import type { AnyPlace, Place, Scopes } from './scopes.ts'
import { isPromise } from './validate-payload.ts'

/** Aggregates may publish while they are pulled; one that never runs dry hands the same events out again. */
const PULL_ROUNDS = 100

const NO_BUDGET: Budget = () => false

export interface PublishAtParts<E> {
  readonly scopes: Scopes<E>
  readonly store: Store<never, E>
  readonly stage: PublishStage<E>
  readonly preparer: Preparer
  readonly intake: HotIntake
  readonly sameDatabase: SameDatabase<E>
  /** Resolves when the store can be used. */
  readonly ready: () => Promise<void> | void
}

export class PublishAt<E> {
  readonly #parts: PublishAtParts<E>

  constructor(parts: PublishAtParts<E>) {
    this.#parts = parts
  }

  async publish(place: AnyPlace<E>, drafts: readonly Draft[], many: boolean): Promise<readonly string[]> {
    const { preparer, ready } = this.#parts
    // Waits only where there is something to wait for: nearly every publish comes here with neither.
    const checked = preparer.prepare(drafts, many)
    const waiting = ready()
    if (isPromise(checked) || waiting !== undefined) return await this.#publishLate(place, checked, waiting)
    return await this.#insert(place, checked, null)
  }

  async #publishLate(
    place: AnyPlace<E>,
    checked: PreparedEvents | Promise<PreparedEvents>,
    waiting: Promise<void> | void,
  ): Promise<readonly string[]> {
    // Each is heard of in its turn, and not at all when one before it fails: a rejection in between would end the process.
    for (const step of [checked, waiting]) void Promise.resolve(step).catch(() => undefined)
    const marking = this.#mark(place, waiting !== undefined)
    let prepared: PreparedEvents
    try {
      prepared = await checked
      await waiting
    } catch (error) {
      await drop(marking)
      throw error
    }
    if (prepared.events.length > 0) return await this.#insert(place, prepared, (await marking)?.id ?? null)
    await drop(marking)
    return prepared.ids
  }

  async #insert(
    place: AnyPlace<E>,
    prepared: PreparedEvents,
    mark: string | null,
  ): Promise<readonly string[]> {
    const { scopes, stage, intake, sameDatabase } = this.#parts
    if (prepared.events.length === 0) return prepared.ids
    if (place.scope === null) {
      const executor = place.transactions.executor(place.tx)
      const published = await stage.insert(executor, stage.plan(prepared, 'unobserved', NO_BUDGET, mark))
      intake.expectRows('unseen')
      return published.ids
    }
    const { scope } = place
    const isUnseen = place.transactions.savepointsUnseen === true
    const isAwaited = (): boolean => scopes.isTurning(scope)
    let { frame } = place
    const published = await scope.insert(frame, isAwaited, (into, isDoubtful) => {
      frame = into
      const executor = place.transactions.executor(place.tx)
      const observation = isUnseen || isDoubtful ? 'doubtful' : 'observed'
      return stage.insert(executor, stage.plan(prepared, observation, scope.budget, mark))
    })
    sameDatabase.watch({ ...place, frame }, prepared.events.find(({ isNew }) => isNew)?.record.id)
    return published.ids
  }

  /**
   * While a schema or the store takes its time, the application may roll back in ways that nobody tells us of. Null where
   * no mark can be left, because the store is not open yet.
   */
  #mark(place: AnyPlace<E>, isOpening: boolean): Promise<Mark | null> | null {
    const { scopes, store } = this.#parts
    const { scope } = place
    const isSeen = scope !== null && place.transactions.savepointsUnseen !== true
    if (isSeen || store.mark === undefined) return null
    const send = store.mark.bind(store)
    const leave = (): Promise<Mark> => send(place.transactions.executor(place.tx))
    const mark = scope === null ? leave() : scope.send(place.frame, () => scopes.isTurning(scope), leave)
    // Heard of when the schema has answered; by then its rejection would have ended the process.
    mark.catch(() => undefined)
    return isOpening ? mark.catch(() => null) : mark
  }

  /** Before a savepoint; null where nothing needs to be found out. */
  async markOuter({ transactions, tx }: Place<unknown, E>): Promise<OuterMark<E> | null> {
    return (await this.#parts.store.markOuter?.(transactions.executor(tx))) ?? null
  }

  /** COMMIT found no transaction. Whether that was committed or rolled back by then, its events tell. */
  async commitErrorOf(error: unknown, { root }: CommitScope): Promise<unknown> {
    const { detail } = (error ?? {}) as Partial<OutboxError>
    if (detail?.hadEnded !== true) return error
    const isGone =
      root.eventId === null
        ? detail.hadFailures === true
        : await this.#parts.store.inspection.event(root.eventId).then(
            (found) => found === null,
            () => false,
          )
    if (!isGone) return error
    return new TransactionError(
      ERROR_CODES.commitRolledBack,
      'The database had rolled this transaction back before its COMMIT, because of an earlier error in it or of a ROLLBACK ' +
        'that was sent by hand, so nothing of it is stored.',
      { cause: error },
    )
  }

  publishSync(place: AnyPlace<E>, drafts: readonly Draft[], many: boolean): readonly string[] {
    const { stage, intake, store, preparer } = this.#parts
    if (store.insertSync === undefined) {
      throw new OutboxError(
        ERROR_CODES.unsupported,
        `publishSync needs a synchronous driver, and ${store.name} has none: use await outbox.publish(tx, event)`,
      )
    }
    const prepared = preparer.prepareSync(drafts, many)
    if (prepared.events.length === 0) return prepared.ids
    const executor = place.transactions.executor(place.tx)
    const { scope } = place
    if (scope === null) {
      const { ids } = stage.insertSync(executor, stage.plan(prepared, 'unobserved', NO_BUDGET))
      intake.expectRows('unseen')
      return ids
    }
    // A synchronous driver's own nested transactions are savepoints on the same handle that we cannot see.
    const insert = () => stage.insertSync(executor, stage.plan(prepared, 'doubtful', scope.budget))
    return scope.insertSync(place.frame, insert).ids
  }

  /** What these objects collected, in the order given; in calls of bounded size. */
  async publishFrom(place: AnyPlace<E>, sources: readonly EventSource[]): Promise<readonly string[]> {
    return this.#publishPulled(place, await pull(sources))
  }

  async #publishPulled(place: AnyPlace<E>, drafts: readonly Draft[]): Promise<readonly string[]> {
    const ids: string[] = []
    for (let from = 0; from < drafts.length; from += MAX_EVENTS_PER_CALL) {
      const part = await this.publish(place, drafts.slice(from, from + MAX_EVENTS_PER_CALL), true)
      for (const id of part) ids.push(id)
    }
    return ids
  }

  /** Just before commit: pulls what the tracked objects collected until they have no more. */
  async publishTracked(place: Place<unknown, E>): Promise<void> {
    const { tracked } = place.scope.root
    if (tracked.size === 0) return
    for (let round = 0; round < PULL_ROUNDS; round++) {
      const drafts = await pull([...tracked])
      if (drafts.length === 0) return
      await this.#publishPulled(place, drafts)
    }
    throw refuse(
      'pullEvents',
      'endless',
      `of a tracked object still returned events after ${PULL_ROUNDS} rounds: it must hand over each event once`,
    )
  }
}

/** There will be no insert that takes the mark away. */
const drop = async (marking: Promise<Mark | null> | null): Promise<void> => {
  const mark = await marking?.catch(() => null)
  await mark?.drop()
}

const pull = async (sources: readonly EventSource[]): Promise<Draft[]> => {
  const drafts: Draft[] = []
  for (const source of sources) {
    if (typeof source?.pullEvents !== 'function') {
      throw refuse(
        'pullEvents',
        'missing',
        'is missing: an aggregate must have pullEvents(), which returns an array',
      )
    }
    const pulled: unknown = await source.pullEvents()
    if (!Array.isArray(pulled)) throw refuse('pullEvents', 'not-a-list', 'must return an array of events')
    for (const draft of pulled) drafts.push(draft as Draft)
  }
  return drafts
}
