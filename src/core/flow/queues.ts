/**
 * Stage 3: the bounded queues of one destination.
 *
 * Receives  deliveries that this process may send, from the hot path (after commit) and the cold one (poller).
 * Hands on  batches to the workers: hot first, cold never starved, a key one at a time, a suspect alone. What was put
 *           at the back counts as cold from then on, wherever it came from.
 * Guarantees
 * - A delivery is in here at most once, from the moment it is offered until its settle is confirmed; that is
 *   how the poller knows what is in flight.
 * - Count and bytes are bounded: `offer` says no rather than grow.
 * - Deliveries of one key leave in `seq` order, the next one only after the one before ended well.
 */
import type { Delivery, DeliverySource } from '../model/delivery.ts'
import { Deque } from './deque.ts'
import { Entry } from './queue-entry.ts'

export interface QueueBounds {
  readonly hot: number
  readonly cold: number
  readonly bytes: number
}

/** Everything in memory of one key. `active` is queued or running; the rest waits behind it. */
interface KeyLine {
  active: Entry | null
  waiting: Entry[]
  /** Also those that were sent and are not yet durably settled: the database still shows their rows. */
  readonly members: Map<string, Entry>
  /** Members under way; more than one only in a batch of an ordered-prefix publisher. */
  running: number
  /** Deliveries that failed: nothing of this key leaves until each of them was let go by `unstall`. */
  readonly stalledBy: Set<string>
}

/** Claimed by a token, whoever has its lane. */
export const isHot = ({ right }: Delivery): boolean => right.kind === 'token'

/** After this many hot deliveries in a row one cold delivery goes first. */
const HOT_RUN = 8

export class Queues {
  readonly #bounds: QueueBounds
  /** When so many have left, and no fewer than are here, the Maps are made anew: see "Memory" in ARCHITECTURE.md. */
  readonly #renewAfter: number
  #entries = new Map<string, Entry>()
  #keys = new Map<string, KeyLine>()
  /** Since the Maps were made. */
  #forgotten = 0
  readonly #ready: Record<DeliverySource, Deque<Entry>> = { hot: new Deque(), cold: new Deque() }
  readonly #queued: Record<DeliverySource, number> = { hot: 0, cold: 0 }
  #bytes = 0
  readonly #timed = { count: 0, bytes: 0 }
  #running = 0
  #aloneRunning = false
  #hotInARow = 0

  constructor(bounds: QueueBounds, renewAfter = 4_096) {
    this.#bounds = bounds
    this.#renewAfter = renewAfter
  }

  get running(): number {
    return this.#running
  }

  get size(): number {
    return this.#entries.size
  }

  /** Retries and scheduled ones in here: a read brings them again, beside what is new. */
  get timed(): { readonly count: number; readonly bytes: number } {
    return this.#timed
  }

  depth(source: DeliverySource): number {
    return this.#queued[source]
  }

  /** Queued, running or sent and not yet settled. */
  has(id: string): boolean {
    return this.#entries.has(id)
  }

  /** Queued or running: nobody knows yet what becomes of it. */
  isUndecided(id: string): boolean {
    const phase = this.#entries.get(id)?.phase
    return phase === 'ready' || phase === 'waiting' || phase === 'running'
  }

  undecided(): string[] {
    return [...this.#entries.keys()].filter((id) => this.isUndecided(id))
  }

  /** How many more deliveries of a source fit by count; bytes are checked per delivery. */
  room(source: DeliverySource): number {
    return this.#bytes >= this.#bounds.bytes ? 0 : Math.max(0, this.#bounds[source] - this.#queued[source])
  }

  /** More than half full, and some of it only waits for a worker: what waits behind its key keeps nobody busy. */
  isStocked(source: DeliverySource): boolean {
    return this.#ready[source].length > 0 && this.#queued[source] > this.room(source)
  }

  byteRoom(): number {
    return Math.max(0, this.#bounds.bytes - this.#bytes)
  }

  /** All of `ids` are in here, as deliveries of this key: the row behind them may join the line. */
  coversKey(key: string, ids: readonly string[]): boolean {
    const line = this.#keys.get(key)
    if (line === undefined) return ids.length === 0
    const isOnItsWay = (entry: Entry | undefined): boolean => entry !== undefined && entry.phase !== 'leaving'
    return line.stalledBy.size === 0 && ids.every((id) => isOnItsWay(line.members.get(id)))
  }

  /** False: it does not fit. A delivery that is already here is accepted and changes nothing. */
  offer(delivery: Delivery): boolean {
    if (this.#entries.has(delivery.id)) return true
    const { size } = delivery.event
    // A single delivery larger than the byte bound must still pass when it is the only one.
    const fits = this.#entries.size === 0 || this.#bytes + size <= this.#bounds.bytes
    if (!fits || this.room(delivery.source) === 0) return false
    const entry = new Entry(delivery)
    this.#entries.set(delivery.id, entry)
    this.#bytes += size
    if (delivery.timed) this.#countTimed(1, size)
    this.#queued[delivery.source] += 1
    const key = delivery.event.key
    if (key === null) this.#ready[delivery.source].push(entry)
    else this.#joinLine(key, entry)
    return true
  }

  /**
   * Up to `max` deliveries that may run now. With `orderedPrefix` the followers of a key may share its batch.
   * Bytes of one batch stay below a quarter of the bound, so that a batch cannot be the whole memory.
   * What is `single` shares its batch with nobody; other batches may be under way.
   */
  take(max: number, orderedPrefix: boolean, single: (id: string) => boolean = () => false): Delivery[] {
    const batch: Delivery[] = []
    let bytes = 0
    while (batch.length < max && !this.#aloneRunning) {
      const deque = this.#nextDeque()
      const next = deque?.peek()
      if (deque === undefined || next === undefined) break
      if (next.delivery.alone && (this.#running > 0 || batch.length > 0)) break
      const isSingle = single(next.delivery.id)
      if (isSingle && batch.length > 0) break
      bytes += next.delivery.event.size
      if (batch.length > 0 && bytes > this.#bounds.bytes / 4) break
      deque.shift()
      this.#hotInARow = deque === this.#ready.hot ? this.#hotInARow + 1 : 0
      this.#start(next, batch)
      if (next.delivery.alone) {
        this.#aloneRunning = true
        break
      }
      if (isSingle) break
      if (orderedPrefix) this.#takeFollowers(next, batch, max, single)
    }
    this.#running += batch.length
    return batch
  }

  /** Those behind which others should have their turn first; the heads of keys may change places. */
  postpone(later: (id: string) => boolean): void {
    const isLater = ({ delivery }: Entry): boolean => later(delivery.id)
    const moved = Object.values(this.#ready).flatMap((deque) => deque.remove(isLater))
    for (const entry of moved) this.#ready.cold.push(entry)
  }

  /** The delivery ended well or is over for good: the next of its key may go, before this one is settled. */
  complete(delivery: Delivery): void {
    const entry = this.#leaveRunning(delivery)
    if (entry === null) return
    entry.phase = 'settling'
    const line = this.#lineOf(delivery)
    if (line === null) return
    if (line.active === entry) line.active = null
    this.#activateNext(line)
  }

  /** The delivery failed and holds its key: nothing behind it leaves until the key is let go by `unstall`. */
  stall(delivery: Delivery): void {
    const entry = this.#leaveRunning(delivery)
    if (entry === null) return
    entry.phase = 'leaving'
    const line = this.#lineOf(delivery)
    if (line === null) return
    if (line.active === entry) line.active = null
    line.stalledBy.add(delivery.id)
  }

  /**
   * What waits in memory behind a stalled head. It stays in flight until the caller forgets it, and the key stays
   * closed until `unstall`.
   */
  takeStalled(key: string): Delivery[] {
    const line = this.#keys.get(key)
    if (line === undefined || line.stalledBy.size === 0) return []
    const behind = line.waiting
    line.waiting = []
    for (const entry of behind) {
      entry.phase = 'leaving'
      this.#queued[entry.delivery.source] -= 1
    }
    return behind.map((entry) => entry.delivery)
  }

  /** Keys of which something is about to be given back: it is not in our hands, and a read may have passed it over. */
  leavingKeys(): Set<string> {
    const keys = new Set<string>()
    for (const { phase, delivery } of this.#entries.values()) {
      if (phase === 'leaving' && delivery.event.key !== null) keys.add(delivery.event.key)
    }
    return keys
  }

  /** Whether this delivery is one of those that keep its key closed. */
  isStalledBy(delivery: Delivery): boolean {
    return this.#lineOf(delivery)?.stalledBy.has(delivery.id) ?? false
  }

  /** These no longer keep the key closed: from now on the database itself says who is behind whom. */
  unstall(key: string, ids: Iterable<string>): void {
    const line = this.#keys.get(key)
    if (line === undefined) return
    for (const id of ids) line.stalledBy.delete(id)
    this.#activateNext(line)
    this.#dropLineIfEmpty(key, line)
  }

  /** More is known of a delivery that is under way: its attempt was written down. */
  replace(known: Delivery, delivery: Delivery): void {
    const entry = this.#entries.get(known.id)
    if (entry?.delivery === known) entry.delivery = delivery
  }

  /** It was not sent after all: back to the front, or to the back so that others get their turn. */
  putBack(delivery: Delivery, where: 'front' | 'back'): void {
    const entry = this.#leaveRunning(delivery)
    if (entry === null) return
    entry.phase = 'ready'
    this.#queued[delivery.source] += 1
    const line = this.#lineOf(delivery)
    if (line !== null && line.active !== entry) {
      // A follower of an ordered batch: it waits in its place again.
      this.#insertBySeq(line, entry)
      this.#activateNext(line)
      return
    }
    if (where === 'front') this.#ready[delivery.source].pushFront(entry)
    else this.#ready.cold.push(entry)
  }

  /**
   * The settle is confirmed, or the right is lost: it is no longer in flight. By the very object, because a hot one
   * that was released may be here again by now, read from the database.
   */
  forget(delivery: Delivery): void {
    const { id } = delivery
    const entry = this.#entries.get(id)
    if (entry === undefined || entry.delivery !== delivery) return
    this.#entries.delete(id)
    entry.empty()
    this.#forgotten += 1
    if (this.#forgotten >= Math.max(this.#renewAfter, this.#entries.size)) {
      this.#forgotten = 0
      this.#entries = new Map(this.#entries)
      this.#keys = new Map(this.#keys)
    }
    const { size, key } = delivery.event
    this.#bytes -= size
    if (delivery.timed) this.#countTimed(-1, size)
    if (key === null) return
    const line = this.#keys.get(key)
    if (line === undefined) return
    line.members.delete(id)
    this.#dropLineIfEmpty(key, line)
  }

  /** Takes queued deliveries out (running ones stay). They are forgotten; the caller releases their rights. */
  drop(leaves: (delivery: Delivery) => boolean): Delivery[] {
    const gone: Entry[] = []
    // One by one: a queue may hold more than a call can have arguments.
    for (const source of ['hot', 'cold'] as const) {
      for (const entry of this.#ready[source].remove((one) => leaves(one.delivery))) gone.push(entry)
    }
    for (const line of this.#keys.values()) {
      const stay: Entry[] = []
      for (const entry of line.waiting) (leaves(entry.delivery) ? gone : stay).push(entry)
      line.waiting = stay
    }
    const dropped = gone.map(({ delivery }) => delivery)
    for (const entry of gone) {
      this.#queued[entry.delivery.source] -= 1
      const line = this.#lineOf(entry.delivery)
      this.forget(entry.delivery)
      if (line?.active === entry) line.active = null
      if (line !== null) this.#activateNext(line)
    }
    return dropped
  }

  /** Whether anything in here, queued or not, satisfies the test. */
  some(test: (delivery: Delivery) => boolean): boolean {
    for (const entry of this.#entries.values()) if (test(entry.delivery)) return true
    return false
  }

  /** What a worker has in its hands under this id. */
  runningOne(id: string): Delivery | null {
    const entry = this.#entries.get(id)
    return entry?.phase === 'running' ? entry.delivery : null
  }

  /** Whether anything of this lane was taken out and is not forgotten yet. */
  isUnderWay(lane: number): boolean {
    for (const { phase, delivery } of this.#entries.values())
      if (delivery.lane === lane && phase !== 'ready' && phase !== 'waiting') return true
    return false
  }

  #countTimed(by: 1 | -1, size: number): void {
    this.#timed.count += by
    this.#timed.bytes += by * size
  }

  #joinLine(key: string, entry: Entry): void {
    let line = this.#keys.get(key)
    if (line === undefined) {
      line = { active: null, waiting: [], members: new Map(), running: 0, stalledBy: new Set() }
      this.#keys.set(key, line)
    }
    line.members.set(entry.delivery.id, entry)
    this.#insertBySeq(line, entry)
    this.#activateNext(line)
  }

  #insertBySeq(line: KeyLine, entry: Entry): void {
    entry.phase = 'waiting'
    const seq = entry.delivery.seq ?? 0n
    let at = line.waiting.length
    while (at > 0 && (line.waiting[at - 1]?.delivery.seq ?? 0n) > seq) at -= 1
    line.waiting.splice(at, 0, entry)
  }

  #activateNext(line: KeyLine): void {
    if (line.active !== null || line.stalledBy.size > 0 || line.running > 0) return
    const next = line.waiting.shift()
    if (next === undefined) return
    next.phase = 'ready'
    line.active = next
    this.#ready[next.delivery.source].push(next)
  }

  #takeFollowers(head: Entry, batch: Delivery[], max: number, single: (id: string) => boolean): void {
    const line = this.#lineOf(head.delivery)
    while (line !== null && batch.length < max) {
      const next = line.waiting[0]
      if (next === undefined || next.delivery.alone || single(next.delivery.id)) return
      line.waiting.shift()
      this.#start(next, batch)
    }
  }

  #start(entry: Entry, batch: Delivery[]): void {
    entry.phase = 'running'
    this.#queued[entry.delivery.source] -= 1
    const line = this.#lineOf(entry.delivery)
    if (line !== null) line.running += 1
    batch.push(entry.delivery)
  }

  #nextDeque(): Deque<Entry> | undefined {
    const { hot, cold } = this.#ready
    if (hot.length > 0 && (cold.length === 0 || this.#hotInARow < HOT_RUN)) return hot
    return cold.length > 0 ? cold : undefined
  }

  #leaveRunning(delivery: Delivery): Entry | null {
    const entry = this.#entries.get(delivery.id)
    if (entry === undefined || entry.phase !== 'running') return null
    this.#running -= 1
    const line = this.#lineOf(delivery)
    if (line !== null) line.running -= 1
    if (delivery.alone) this.#aloneRunning = false
    return entry
  }

  #lineOf(delivery: Delivery): KeyLine | null {
    const { key } = delivery.event
    return key === null ? null : (this.#keys.get(key) ?? null)
  }

  #dropLineIfEmpty(key: string, line: KeyLine): void {
    // A closed key stays known even when nothing of it is left here: otherwise the next to come would just go.
    if (line.members.size === 0 && line.stalledBy.size === 0) this.#keys.delete(key)
  }
}
