/**
 * The cold path: reads the due deliveries of our lanes and puts them into the cold queue.
 *
 * Receives  the lanes of one destination that are ours, and nudges that something may be due.
 * Hands on  to the dispatcher (stage 3).
 * Guarantees
 * - Fresh rows are read past a cursor. Because a lower `seq` can become visible later, what is unfinished
 *   behind the cursor is listed at least every `sweepIntervalMs` and compared with what is in flight here.
 * - A keyed row read past the cursor is sent only after a sweep whose snapshot is no older than that read.
 * - Nothing is read that does not fit; nothing that was read and not sent is forgotten: the cursor goes back.
 * - It sleeps until the next row is due, wakes on a nudge and goes on at once while there is more.
 * - While its destination is paused it reads nothing, but still expands: what is unrouted may be for others.
 */
import { CHANNELS, tell } from '../runtime/channels.ts'
import { Signal } from '../runtime/signal.ts'
import type {
  Logger,
  Metrics,
  ReadRequest,
  ReadResult,
  Runtime,
  Store,
  StoredDelivery,
  SweptDelivery,
} from '../spi/index.ts'
import type { Admission, Admitted, ReadFacts } from './admission.ts'
import type { Dispatcher } from './dispatcher.ts'
import type { Lanes } from './lanes.ts'
import { bySeq, readLate } from './late-rows.ts'
import type { ReadGuard } from './read-guard.ts'
import { SweepMark } from './sweep-mark.ts'
import type { Tuning } from './tuning.ts'

export interface PollerOptions {
  /** Interval and rows per read; an operator may change them at any time. */
  readonly tuning: Pick<Tuning, 'pollIntervalMs' | 'pollIdleMaxMs' | 'pollBatchSize'>
  readonly skipRecentMs: number
  /** Look only at rows stored this recently, except in sweeps; 0 looks at all. */
  readonly windowMs: number
  readonly sweepIntervalMs: number
}

export interface PollerParts {
  readonly destination: string
  readonly store: Store
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics
  readonly dispatcher: Dispatcher
  readonly lanes: Lanes
  readonly admission: Admission
  readonly guard: ReadGuard
  /** There are unrouted deliveries: expands them as far as possible. True when there is something new to read. */
  readonly expand: () => Promise<boolean>
}

/** With the times of that read alone: what was expanded or activated before it says nothing about its cost. */
interface TimedRead {
  readonly result: ReadResult
  readonly startedAt: number
  readonly endedAt: number
}

/** Ids beside those in flight here that one sweep lists at most; with more behind the cursor it goes back instead. */
export const SWEEP_LIMIT = 2_000
/** After a commit that we could not observe: look this soon, then at growing distances for a moment. */
const EXPECT_FIRST_MS = 5
const EXPECT_LAST_MS = 640
/** A row that could be neither sent nor put aside is looked at again after this. */
const BLOCKED_PAUSE_MS = 50

export class Poller {
  readonly #parts: PollerParts
  readonly #options: PollerOptions
  readonly #signal: Signal
  readonly #mark = new SweepMark()
  #cursor = 0n
  #lastSweepAt = Number.NEGATIVE_INFINITY
  #sweepWanted = true
  /** Counts rewinds, so that a read that was under way does not undo one. */
  #rewinds = 0
  #keyedSeen = false
  #idleMs: number
  #expectMs = Number.POSITIVE_INFINITY
  #running: Promise<void> | null = null
  #turn: Promise<unknown> = Promise.resolve()
  #closed = false
  #wantsRoom = false

  constructor(parts: PollerParts, options: PollerOptions) {
    this.#parts = parts
    this.#options = options
    this.#signal = new Signal(parts.runtime)
    this.#idleMs = options.tuning.pollIntervalMs
  }

  start(): void {
    this.#running ??= this.#run()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#signal.ring()
    await this.#running
  }

  /** Something may be due now. */
  nudge(): void {
    this.#signal.ring()
  }

  /** The numbers are others now: a pause that has begun is not waited out. */
  retuned(): void {
    this.#idleMs = this.#options.tuning.pollIntervalMs
    this.#signal.ring()
  }

  /** Rows may appear soon, at a time nobody will tell us. Paused, nobody waits for them: resuming looks anyway. */
  expectRows(): void {
    if (this.#parts.dispatcher.paused) return
    this.#expectMs = EXPECT_FIRST_MS
    this.#signal.ring()
  }

  /** Lanes came: their rows can lie anywhere behind the cursor. */
  rewind(): void {
    this.#cursor = 0n
    this.#rewinds += 1
    this.#mark.reset()
    this.#sweepWanted = true
    this.#signal.ring()
  }

  /** Sweep at the next opportunity: rows behind the cursor became pending. */
  sweepSoon(): void {
    this.#mark.reset()
    this.#sweepWanted = true
    this.#signal.ring()
  }

  /** The queue has room again; worth a read once it is at most half full, or has nothing for a worker. */
  roomFreed(): void {
    if (!this.#wantsRoom || this.#parts.dispatcher.queues.isStocked('cold')) return
    this.#wantsRoom = false
    this.#signal.ring()
  }

  /** A read at this moment looks into every lane. */
  get seesAll(): boolean {
    const { lanes, destination, dispatcher } = this.#parts
    return lanes.readable(destination)?.all === true && !dispatcher.paused && lanes.isValid(lanes.workerId)
  }

  /** One cycle. Returns how long to wait before the next; 0 means that there is more to do. Calls take turns. */
  poll(): Promise<number> {
    const turn = this.#turn
      .then(() => this.#poll())
      .catch((error) => {
        // What it swept and could not deal with is found by the next one.
        this.#sweepWanted = true
        this.#mark.reset()
        throw error
      })
    this.#turn = turn.catch(() => undefined)
    return turn
  }

  /** One cycle, for somebody who waits. True: all that was due at the call is in the queues, or was since. */
  async pollAll(): Promise<boolean> {
    const { guard, admission } = this.#parts
    const { next } = guard
    await this.poll()
    return admission.allReadBy >= next
  }

  async #poll(): Promise<number> {
    const { lanes, destination, dispatcher, guard } = this.#parts
    const readable = lanes.readable(destination)
    if (readable === null || !lanes.isValid(lanes.workerId)) return this.#pause()
    if (dispatcher.paused) return await this.#expandOnly()
    const room = Math.min(this.#options.tuning.pollBatchSize, dispatcher.queues.room('cold'))
    if (room <= 0) return this.#waitForRoom()
    return await guard.during(async (readId) => {
      const now = this.#parts.runtime.monotonicNow()
      const { workerId, losses } = lanes
      const rewinds = this.#rewinds
      const stillOurs = (): boolean => lanes.losses === losses && this.#rewinds === rewinds
      const request = this.#request(readable.all ? null : readable.lanes, room, now)
      const { result, startedAt, endedAt } = await this.#read(request, workerId)
      if (request.sweep) this.#lastSweepAt = startedAt
      if (request.sweep && request.sweepFrom === 0n)
        this.#mark.fullSweepEnded(endedAt, endedAt - startedAt, this.#options.tuning.pollIntervalMs)
      this.#mark.note(request.after, result, startedAt)
      return await this.#admit(result, request, { readId, readAt: endedAt, workerId, stillOurs })
    })
  }

  /** Were everything paused, nobody else would expand, and nobody could see how much waits for whom. */
  async #expandOnly(): Promise<number> {
    this.#expectMs = Number.POSITIVE_INFINITY
    if (await this.#parts.expand()) this.#idleMs = this.#options.tuning.pollIntervalMs
    return this.#pause()
  }

  #request(lanes: readonly number[] | null, room: number, now: number): ReadRequest {
    const { queues } = this.#parts.dispatcher
    const { timed } = queues
    const sweep = this.#shouldSweep(now)
    const sweepFrom = this.#keyedSeen ? 0n : this.#mark.from(now)
    if (sweep) this.#sweepWanted = false
    return {
      destination: this.#parts.destination,
      lanes,
      after: this.#cursor,
      limit: room + timed.count,
      dueLimit: timed.count + Math.ceil(room / 2),
      maxBytes: Math.max(1, queues.byteRoom()) + timed.bytes,
      skipRecentMs: this.#options.skipRecentMs,
      windowMs: sweep ? 0 : this.#options.windowMs,
      sweep,
      sweepFrom,
      // What is in flight here is among them, and must not hide what is not.
      sweepLimit: SWEEP_LIMIT + queues.size,
    }
  }

  /** What was just routed belongs before what a read found, and what was just activated behind it. */
  async #read(request: ReadRequest, workerId: string): Promise<TimedRead> {
    const { store, expand, destination } = this.#parts
    let read = await this.#readOnce(request)
    if (read.result.unrouted && (await expand())) read = await this.#readOnce(request)
    const wanted = { workerId, destination, lanes: request.lanes, limit: this.#options.tuning.pollBatchSize }
    if (!read.result.activatable || (await store.queue.activate(wanted)) === 0) return read
    const again = await this.#readOnce(request)
    return { ...again, result: { ...again.result, more: again.result.more || again.result.activatable } }
  }

  async #readOnce(request: ReadRequest): Promise<TimedRead> {
    const { store, runtime } = this.#parts
    const startedAt = runtime.monotonicNow()
    const result = await store.queue.read(request)
    const endedAt = runtime.monotonicNow()
    this.#measure(result.due.length + result.fresh.length, endedAt - startedAt)
    return { result, startedAt, endedAt }
  }

  #measure(rows: number, durationMs: number): void {
    const { destination, metrics, logger } = this.#parts
    metrics.observeRead(destination, rows, durationMs)
    if (CHANNELS.read.hasSubscribers) tell('read', { destination, rows, durationMs })
    if (rows > 0 && logger.isEnabled?.('debug') === true)
      logger.log('debug', 'deliveries were found', { destination, rows, durationMs })
  }

  #shouldSweep(now: number): boolean {
    if (this.#sweepWanted || this.#keyedSeen) return true
    return now - this.#lastSweepAt >= this.#options.sweepIntervalMs
  }

  #waitForRoom(): number {
    this.#wantsRoom = true
    return this.#options.tuning.pollIntervalMs
  }

  async #run(): Promise<void> {
    let failures = 0
    while (!this.#closed) {
      let waitMs: number
      try {
        waitMs = await this.poll()
        failures = 0
      } catch (error) {
        failures += 1
        waitMs = Math.min(this.#options.tuning.pollIdleMaxMs, 50 * 2 ** Math.min(failures, 10))
        this.#parts.logger.log('error', 'the poller could not read; tried again shortly', {
          destination: this.#parts.destination,
          waitMs,
          error: String(error),
        })
      }
      if (this.#closed) return
      if (waitMs > 0) await this.#signal.wait(waitMs)
      // Even a full backlog leaves the event loop a turn between two reads.
      else await this.#parts.runtime.yield()
    }
  }

  async #admit(result: ReadResult, request: ReadRequest, read: Omit<ReadFacts, 'unsure'>): Promise<number> {
    const { admission, dispatcher } = this.#parts
    const sweptAll = request.sweep && request.sweepFrom === 0n && !result.sweptMore
    /** Keys of which a row may be missing here. */
    const unsure = dispatcher.queues.leavingKeys()
    let late: readonly StoredDelivery[] = []
    if (result.swept !== null) {
      const missing = this.#missing(result.swept)
      if (missing.length > 0 && (result.sweptMore || missing.length > this.#options.tuning.pollBatchSize)) {
        // Too many to fetch one by one. Rows of this read may belong behind them, so they are read again too.
        this.#goBackTo(missing[0]?.seq ?? 1n)
        return 0
      }
      if (missing.length > 0) {
        const found = await readLate(this.#parts, missing, read.workerId)
        late = found.rows
        for (const key of found.unsure) unsure.add(key)
        if (late.some(({ key }) => key !== null && unsure.has(key))) this.sweepSoon()
      }
    }
    // Lanes went or came while the database answered: these rows are looked at anew.
    if (!read.stillOurs()) {
      this.sweepSoon()
      return 0
    }
    const before = this.#cursor
    const fresh = this.#upToUnswept(result, sweptAll)
    const last = fresh.at(-1)
    if (last !== undefined && last.seq > this.#cursor) this.#cursor = last.seq
    const ready = [...late, ...fresh].sort(bySeq)
    const admitted = await admission.admit([...result.due, ...ready], { ...read, unsure }).catch((error) => {
      // By reads, whose bytes are bounded, and not by their ids.
      if (ready[0] !== undefined) this.#goBackTo(ready[0].seq)
      throw error
    })
    if (admitted.goBackTo !== null) this.#goBackTo(admitted.goBackTo)
    if (admitted.full) return this.#waitForRoom()
    const nothingWaits = !admitted.blocked && admitted.goBackTo === null && read.stillOurs()
    if (sweptAll && !result.more && nothingWaits) admission.allRead(read.readId)
    const cut = this.#keyedSeen && !sweptAll
    const wait = this.#waitAfter(result, admitted, cut, this.#cursor > before)
    // What came due behind the cursor a moment ago is not seen yet, and must not wait for a long pause to end.
    return sweptAll ? wait : Math.min(wait, this.#untilFullSweep())
  }

  #goBackTo(seq: bigint): void {
    if (seq <= this.#cursor) this.#cursor = seq - 1n
  }

  /** What the sweep found behind the cursor and nobody here has in hand. */
  #missing(swept: readonly SweptDelivery[]): readonly SweptDelivery[] {
    return swept.filter(({ id }) => !this.#parts.admission.isInFlight(id))
  }

  /**
   * Without a full sweep, a lower row of the same key may be visible that we have not seen. So a read without one
   * ends before its first keyed row, which the next read brings again together with a sweep. As long as
   * keyed rows come, every read sweeps; only the change from keyless to keyed traffic costs a second read.
   */
  #upToUnswept(result: ReadResult, sweptAll: boolean): readonly StoredDelivery[] {
    const keyed = result.fresh.findIndex(({ key }) => key !== null)
    this.#keyedSeen = keyed >= 0
    return keyed < 0 || sweptAll ? result.fresh : result.fresh.slice(0, keyed)
  }

  #waitAfter(result: ReadResult, { blocked, handled }: Admitted, cut: boolean, moved: boolean): number {
    if (blocked) return BLOCKED_PAUSE_MS
    if (cut) return 0
    // Else each place that a handler makes free would be a read.
    if (result.more && (handled > 0 || moved))
      return this.#parts.dispatcher.queues.isStocked('cold') ? this.#waitForRoom() : 0
    if (handled > 0) this.#idleMs = this.#options.tuning.pollIntervalMs
    const wait = this.#pause()
    return result.nextDueInMs === null ? wait : Math.min(wait, Math.max(1, result.nextDueInMs))
  }

  #untilFullSweep(): number {
    const at = Math.max(this.#lastSweepAt + this.#options.sweepIntervalMs, this.#mark.fullAgainAt)
    return Math.max(1, at - this.#parts.runtime.monotonicNow())
  }

  /** Nothing to do: wait for the interval, longer the longer nothing happens, or shorter while rows are expected. */
  #pause(): number {
    if (this.#expectMs <= EXPECT_LAST_MS) {
      const wait = this.#expectMs
      this.#expectMs *= 2
      return wait
    }
    const wait = this.#idleMs
    this.#idleMs = Math.min(this.#options.tuning.pollIdleMaxMs, this.#idleMs * 1.5)
    return wait
  }
}
