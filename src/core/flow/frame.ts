/**
 * Part of stage 2: what one savepoint, or the transaction itself at the bottom, has to remember until it is
 * known whether it survives.
 */
import type { TransactionError } from '../errors.ts'
import type { HotCandidate } from './publish.ts'

/** An object that collects events until somebody pulls them; pulling hands each event over once. */
export interface EventSource<D = unknown> {
  pullEvents(): readonly D[] | Promise<readonly D[]>
}

export type Callback = () => unknown

export interface PendingWork {
  readonly kind: 'publish' | 'savepoint'
  /** Resolves when it is over, well or not; waiting for it hides no rejection. */
  readonly done: Promise<void>
  /** What the caller was given. */
  promise: Promise<unknown>
}

export class Frame {
  state: 'open' | 'merged' | 'discarded' = 'open'
  /** Its function returned or threw: nothing new may begin in it. */
  closed = false
  /** Its function threw: what has not been sent yet is not sent any more. */
  failed = false
  below: Frame | null
  hot: HotCandidate[] = []
  /** One of the events that were published in it: whether it is there tells what became of them all. */
  eventId: string | null = null
  /** Some of what was published in it only the poller will find. */
  expectsRows = false
  /** Something that is accounted to it was sent while its savepoint began or ended, so it may be outside of that. */
  isDoubtful = false
  /** Its savepoint may have come into the middle of an insert. */
  isTorn = false
  /** Half of an event may be stored in it: it must be undone, and says so to whoever would commit it. */
  lost: TransactionError | null = null
  afterCommit: Callback[] = []
  afterRollback: Callback[] = []
  tracked = new Set<EventSource>()
  /** Of these, what the application itself gave: that its library wrote nothing of it does not take it away. */
  given = new Set<EventSource>()
  /** Publishes and savepoints that began in it and have not ended. */
  readonly pending = new Set<PendingWork>()
  /** Resolves when its savepoint was released or undone. */
  readonly over: Promise<void>
  end!: () => void

  constructor(below: Frame | null) {
    this.below = below
    this.over = new Promise((resolve) => {
      this.end = resolve
    })
  }

  /** The frame that what was remembered here belongs to by now; null when it is gone. */
  get owner(): Frame | null {
    if (this.state !== 'merged') return this.state === 'open' ? this : null
    return this.below?.owner ?? null
  }

  /** It is gone, and something that is accounted to it may be stored nonetheless: only the poller can tell. */
  expectBelow(): void {
    if (this.below === null) return
    const { owner } = this.below
    if (owner === null) this.below.expectBelow()
    else owner.expectsRows = true
  }

  /** Here, or below, where it will be asked for its events as well. */
  tracks(source: EventSource): boolean {
    return this.tracked.has(source) || (this.below?.tracks(source) ?? false)
  }

  /** What the library had written of it was undone. */
  untrack(source: EventSource): void {
    if (!this.given.has(source)) this.tracked.delete(source)
  }

  takeOver(other: Frame): void {
    // No spread into push: a transaction may have published more than a call takes arguments.
    this.hot = this.hot.concat(other.hot)
    this.eventId ??= other.eventId
    this.expectsRows ||= other.expectsRows
    this.lost ??= other.lost
    this.afterCommit = this.afterCommit.concat(other.afterCommit)
    this.afterRollback = this.afterRollback.concat(other.afterRollback)
    for (const source of other.tracked) this.tracked.add(source)
    for (const source of other.given) this.given.add(source)
    other.end()
  }

  fail(): void {
    this.closed = true
    this.failed = true
    // The transaction reports its failure; the same again from a promise nobody holds would end the process.
    for (const entry of this.pending) entry.promise.catch(() => undefined)
  }

  release(): void {
    this.hot = []
    this.afterCommit = []
    this.afterRollback = []
    this.tracked = new Set()
    this.given = new Set()
    this.end()
  }
}
