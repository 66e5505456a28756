/**
 * Stage 2: commit.
 *
 * Receives what was published inside one transaction; hands on to stage 3 exactly what survived it. A scope is
 * one transaction, its frames are the savepoints that are open: what a rolled-back savepoint published is
 * forgotten with its frame. Guarantees that nothing is offered before the commit is confirmed, nothing after a
 * rollback or an unknown outcome, and that no callback can turn a commit into a failure.
 *
 *   open ──► ending ──► ended      `ending` begins when the caller's function returned or threw: what begins
 *                                  after that would be published outside of the transaction, so it is refused.
 *
 * Statements on one connection are a sequence, so the innermost savepoint open when an insert is sent is the one
 * that decides over it, whichever handle or function it came from. That is why frames are a stack per scope, and why
 * nothing is sent while a savepoint begins or ends.
 */
import type { OutboxError, TransactionError } from '../errors.ts'
import type { Cancel, Logger, Metrics, Runtime } from '../spi/index.ts'
import { type Callback, Frame, type PendingWork } from './frame.ts'
import { besideError, endedError, HALF_COMMITTED, halfStoredError, tornError } from './frame-errors.ts'
import type { HotIntake } from './hot-intake.ts'
import type { Budget, Published } from './publish.ts'
import { allDone, SavepointGate } from './savepoint-gate.ts'
import { isPromise } from './validate-payload.ts'

export type Ending = 'committed' | 'rolledBack' | 'unknown'

export interface ScopeParts {
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics
  readonly intake: HotIntake
  /** Most hot deliveries per destination, and bytes in all, that wait in memory for the commit. */
  readonly capacity: { readonly count: number; readonly bytes: number }
}

/** A nested transaction waits no longer for a publish that began after it was called and has not been sent. */
const LATE_PUBLISH_MS = 1_000

export class CommitScope {
  #state: 'open' | 'ending' | 'ended' = 'open'
  /** A statement failed: what is written is not certain any more. */
  #doubt = false
  /** There is no transaction any more, although nobody has ended it through us. */
  #lost: TransactionError | null = null
  #bytes = 0
  readonly #counts = new Map<string, number>()
  readonly #frames: Frame[]
  readonly #inserts = new Set<Promise<unknown>>()
  readonly #gate: SavepointGate
  readonly #parts: ScopeParts
  readonly root = new Frame(null)

  constructor(parts: ScopeParts) {
    this.#parts = parts
    this.#gate = new SavepointGate(parts.runtime)
    this.#frames = [this.root]
  }

  get isOpen(): boolean {
    return this.#state === 'open'
  }

  get hasEnded(): boolean {
    return this.#state === 'ended'
  }

  /** Refuses work that begins in a transaction or savepoint that is over. */
  requireOpen(frame: Frame): void {
    if (this.#state !== 'open' || frame.state !== 'open' || frame.closed) throw endedError()
  }

  /** It is known to be over: whatever the connection is in by now must not be committed in its place. */
  lose(error: TransactionError): void {
    this.#lost ??= error
  }

  requireKept(): void {
    const lost = this.#lost ?? this.root.lost
    if (lost !== null) throw lost
  }

  /** The frame that an insert sent at this moment belongs to. */
  get innermost(): Frame {
    return this.#frames.at(-1) ?? this.root
  }

  /** The frame whose savepoint begins or ends at this moment. */
  get turning(): Frame | null {
    return this.#gate.frame
  }

  readonly budget: Budget = (destination, bytes) => {
    const count = this.#counts.get(destination) ?? 0
    const { capacity, metrics } = this.#parts
    if (count >= capacity.count || this.#bytes + bytes > capacity.bytes) {
      metrics.hotDropped(destination, 1)
      return false
    }
    this.#counts.set(destination, count + 1)
    this.#bytes += bytes
    return true
  }

  /** Runs work that the end of the transaction must wait for. Its failure is the caller's, unless nobody waited. */
  track<T>(home: Frame, kind: PendingWork['kind'], work: () => Promise<T>): Promise<T> {
    let over!: () => void
    const done = new Promise<void>((resolve) => {
      over = resolve
    })
    const entry: PendingWork = { kind, done, promise: done }
    home.pending.add(entry)
    // Removed from inside: a handler on the promise itself would hide an unhandled rejection from Node.
    const promise = (async () => {
      try {
        return await work()
      } finally {
        home.pending.delete(entry)
        over()
      }
    })()
    entry.promise = promise
    return promise
  }

  /**
   * Sends an insert that began in `home`; what it published waits in a frame for the commit. `isAwaited`: by what the
   * library does to begin or end a savepoint, such as a hook of the application. Then it cannot wait for that, and nobody
   * knows on which side of the savepoint it is: it is sent as one in doubt.
   */
  async insert(
    home: Frame,
    isAwaited: () => boolean,
    send: (frame: Frame, isDoubtful: boolean) => Promise<Published>,
  ): Promise<Published> {
    const waiter = this.#gate.isShut && !isAwaited() ? this.#gate.join() : null
    let [frame, isDoubtful] = [home, false]
    let sent: Promise<Published>
    try {
      // Not in a function of its own: until that has answered the gate may be shut again.
      while (waiter !== null && !this.#gate.mayGo(waiter)) await this.#gate.called(waiter)
      this.#requireSendable(home)
      frame = this.innermost
      isDoubtful = this.turning !== null
      sent = send(frame, isDoubtful)
      this.#inserts.add(sent)
    } finally {
      if (waiter !== null) this.#gate.leave(waiter)
    }
    try {
      const published = await sent
      this.#keep(frame, published, isDoubtful)
      return published
    } catch (error) {
      this.#failed(frame, error, isDoubtful)
      throw error
    } finally {
      this.#inserts.delete(sent)
    }
  }

  /**
   * Some databases roll the whole transaction back when one statement fails (a MySQL deadlock does). From here on only the
   * database knows what is written; the poller will see. But of an event without its deliveries nobody would ever hear.
   */
  #failed({ owner }: Frame, error: unknown, isDoubtful: boolean): void {
    this.#doubt = true
    if ((error as Partial<OutboxError> | null)?.detail?.isHalfStored !== true) return
    if (owner === null || isDoubtful) this.lose(halfStoredError(error))
    else owner.lost ??= halfStoredError(error)
  }

  /** Sends something else of ours that no savepoint may come into the middle of. */
  async send<T>(home: Frame, isAwaited: () => boolean, send: () => Promise<T>): Promise<T> {
    const waiter = this.#gate.isShut && !isAwaited() ? this.#gate.join() : null
    let sent: Promise<T>
    try {
      while (waiter !== null && !this.#gate.mayGo(waiter)) await this.#gate.called(waiter)
      this.#requireSendable(home)
      sent = send()
      this.#inserts.add(sent)
    } finally {
      if (waiter !== null) this.#gate.leave(waiter)
    }
    try {
      return await sent
    } finally {
      this.#inserts.delete(sent)
    }
  }

  #requireSendable(home: Frame): void {
    if (this.#state === 'ended' || home.state !== 'open' || home.failed || this.root.failed)
      throw endedError()
  }

  insertSync(home: Frame, send: () => Published): Published {
    this.requireOpen(home)
    try {
      const published = send()
      this.#keep(this.innermost, published, this.turning !== null)
      return published
    } catch (error) {
      this.#failed(this.innermost, error, this.turning !== null)
      throw error
    }
  }

  #keep(frame: Frame, published: Published, isDoubtful: boolean): void {
    const { owner } = frame
    if (owner === null) {
      // The savepoint was undone before this was answered: it may have been written behind it.
      frame.expectBelow()
      return
    }
    for (const delivery of published.hot) owner.hot.push(delivery)
    owner.eventId ??= published.ids[0] ?? null
    owner.expectsRows ||= published.expectsRows
    owner.isDoubtful ||= isDoubtful
  }

  /**
   * Before a savepoint: publishes that began earlier are finished first, and late ones within a second, so that they stay
   * outside of it; what is sent after that waits until it is there (`enter`). A second one beside another that is open
   * would be undone together with it, although its own function ended well.
   */
  async pushFrame(below: Frame): Promise<Frame> {
    await this.#gate.finished(this.#publishes(), below, () => this.#inserts.size > 0)
    if (this.#publishes().length > 0) await this.#lateDone(below)
    // Not in a function of its own: until that has answered something may be sent again.
    while (this.#inserts.size > 0) await Promise.allSettled(this.#inserts)
    if (below.failed || below.state !== 'open') throw endedError()
    if (this.innermost !== below) throw besideError()
    const frame = new Frame(below)
    this.#frames.push(frame)
    this.#gate.shut(frame)
    return frame
  }

  #publishes(): readonly PendingWork[] {
    const pending = this.#frames.flatMap((frame) => [...frame.pending])
    return pending.filter((entry) => entry.kind === 'publish')
  }

  /** What began after the call, maybe in the same turn, comes before it as well; but it may wait for this one. */
  async #lateDone(below: Frame): Promise<void> {
    let isEnough = false
    let cancel!: Cancel
    const enough = new Promise<void>((resolve) => {
      const stop = (): void => {
        isEnough = true
        resolve()
      }
      cancel = this.#parts.runtime.schedule(LATE_PUBLISH_MS, stop)
      void below.over.then(stop)
    })
    for (let late = this.#publishes(); late.length > 0 && !isEnough; late = this.#publishes())
      await Promise.race([allDone(late), enough])
    cancel()
  }

  /** Its savepoint is there. What waited for it is sent before its function begins. */
  async enter(frame: Frame): Promise<void> {
    // Sent by a hook of the library that did not wait for it, so the savepoint may be in the middle of it.
    frame.isTorn ||= this.turning === frame && this.#inserts.size > 0
    this.#gate.open(frame)
    if (!this.#gate.isShut) return
    const last = this.#gate.join()
    try {
      while (!this.#gate.mayGo(last)) await this.#gate.called(last)
    } finally {
      this.#gate.leave(last)
    }
  }

  /** Its function has ended: what was sent is finished first, and what comes now waits until the savepoint is gone. */
  async leave(frame: Frame): Promise<void> {
    if (frame !== this.root && this.#frames.includes(frame)) this.#gate.shut(frame)
    await this.#sent()
  }

  async #sent(): Promise<void> {
    while (this.#inserts.size > 0) await Promise.allSettled(this.#inserts)
  }

  /** The savepoint was released: what it published now depends on the frame below. */
  mergeFrame(frame: Frame): void {
    const index = this.#frames.indexOf(frame)
    const below = frame.below
    this.#gate.open(frame)
    if (index <= 0 || below === null) return
    this.#frames.splice(index, 1)
    const above = this.#frames[index]
    if (above !== undefined) above.below = below
    frame.state = 'merged'
    below.takeOver(frame)
  }

  /** The savepoint was rolled back, and with it every savepoint that was opened after it. */
  discardFrame(frame: Frame): void {
    const index = this.#frames.indexOf(frame)
    this.#gate.open(frame)
    if (index <= 0) return
    if (frame.isTorn) this.lose(tornError())
    for (const gone of this.#frames.splice(index)) {
      gone.state = 'discarded'
      this.#gate.open(gone)
      if (gone.isDoubtful) gone.expectBelow()
      this.#run(gone.afterRollback, 'afterRollback')
      gone.release()
    }
  }

  /** Waits for everything that began in the frame; what fails unheard would be lost, so it fails the frame. */
  async settle(frame: Frame): Promise<void> {
    while (frame.pending.size > 0) {
      const results = await Promise.allSettled([...frame.pending].map((entry) => entry.promise))
      const failed = results.find((result) => result.status === 'rejected')
      if (failed !== undefined) throw failed.reason
    }
  }

  /** The function of the frame returned or threw: nothing new may begin in it. */
  close(frame: Frame): void {
    frame.closed = true
    if (frame === this.root && this.#state === 'open') this.#state = 'ending'
  }

  /**
   * It will be rolled back: stops what has not been sent, and waits for what has, lest it land after the end. So with
   * nested transactions that still run: what they send later would land in whatever the connection is used for next.
   */
  async abort(frame: Frame): Promise<void> {
    this.close(frame)
    const index = this.#frames.indexOf(frame)
    for (const doomed of index < 0 ? [] : this.#frames.slice(index)) doomed.fail()
    while (this.#frames.includes(frame) && this.innermost !== frame) await this.innermost.over
    await this.leave(frame)
  }

  /** Once, with what became of the transaction. Never throws: the commit is a fact by now. */
  finish(ending: Ending): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    const { root } = this
    for (const frame of this.#frames) {
      frame.state = 'discarded'
      this.#gate.open(frame)
    }
    if (ending === 'committed') this.#offer(root)
    if (ending === 'committed') this.#run(root.afterCommit, 'afterCommit')
    if (ending === 'rolledBack') {
      // Callbacks of savepoints that were still open went down with the transaction as well.
      for (const frame of this.#frames) this.#run(frame.afterRollback, 'afterRollback')
    }
    for (const frame of this.#frames.splice(0)) frame.release()
  }

  #offer(root: Frame): void {
    const { intake, runtime, logger } = this.#parts
    // It was the library that committed, and did not ask.
    if (root.lost !== null) logger.log('error', HALF_COMMITTED, { error: String(root.lost.cause) })
    try {
      const hot = this.#doubt ? [] : root.hot
      const committedAt = runtime.monotonicNow()
      if (hot.length > 0) intake.offer(hot.map((delivery) => ({ ...delivery, committedAt })))
      if (root.expectsRows || hot.length < root.hot.length) intake.expectRows('confirmed')
    } catch (error) {
      logger.log('error', 'could not offer committed deliveries; the poller will deliver them', { error })
    }
  }

  #run(callbacks: readonly Callback[], name: string): void {
    const report = (error: unknown): void =>
      this.#parts.logger.log('error', `a callback of ${name} failed; the transaction is not affected`, {
        error,
      })
    for (const callback of callbacks) {
      try {
        const answer = callback()
        if (isPromise(answer)) Promise.resolve(answer).catch(report)
      } catch (error) {
        report(error)
      }
    }
  }
}
