/**
 * Between the poller and the cold queue: decides for each row that was read what happens to it.
 *
 *   in flight here already            → nothing
 *   cannot be decoded, event missing  → dead, so that it is visible instead of in the way
 *   behind a holder of its key        → held in the database, until that holder is out of the way
 *   suspect                           → counted first; from the third time on it runs alone, and only when it
 *                                       is its turn it is counted and spends the attempt
 *   otherwise                         → offered to the cold queue
 *
 * A suspect is a pending row whose hot token ran out unsettled, or one of the first rows of lanes that were
 * taken over from a worker that did not say goodbye: it may be the event that ended that process. What ran there was
 * due when the lanes were taken, so the first reads that bring all that is due bring it; rows that come later are
 * nobody's suspects. And a suspect that could not be queued yet is counted once, however often it is read.
 */
import { ERROR_CODES } from '../errors.ts'
import type { AttemptFailure, Delivery, Right } from '../model/delivery.ts'
import type { EventRecord } from '../model/event.ts'
import { plain } from '../model/plain.ts'
import type { ResolvedDestination } from '../options.ts'
import type { Logger, Metrics, Store, StoredDelivery, SuspectedDelivery } from '../spi/index.ts'
import type { Dispatcher } from './dispatcher.ts'
import type { Tuning } from './tuning.ts'

export interface AdmissionParts {
  readonly destination: ResolvedDestination
  readonly tuning: Pick<Tuning, 'mostUnderWay'>
  readonly store: Store
  readonly logger: Logger
  readonly metrics: Metrics
  readonly dispatcher: Dispatcher
  /** The lane is ours and we are not about to leave it. */
  readonly owns: (lane: number) => boolean
  /** A read with this number is young enough to say something about the key. */
  readonly isCurrent: (key: string | null, readId: number) => boolean
  readonly newToken: () => string
  /** Runs it when all reads that are under way now have been dealt with. */
  readonly afterReads: (fn: () => void) => void
}

/** What was true when a read began. */
export interface ReadFacts {
  readonly readId: number
  /** Monotonic time of the answer. */
  readonly readAt: number
  readonly workerId: string
  /** None of our lanes went away since: otherwise somebody else may have delivered the rows in the meantime. */
  readonly stillOurs: () => boolean
  /** Keys of which the read may not have brought everything. */
  readonly unsure: ReadonlySet<string>
}

export interface Admitted {
  /** Lowest position that was neither queued nor put aside: read again from here. */
  readonly goBackTo: bigint | null
  /** Something must wait for a row that this process does not control, such as an unrouted one. */
  readonly blocked: boolean
  /** Rows that were queued, put aside or buried. */
  readonly handled: number
  /** The queue took no more. */
  readonly full: boolean
}

/** From this many suspicions on a delivery runs alone and its attempt is written before it is sent. */
export const QUARANTINE_AFTER = 3

/** One more suspicion and it is quarantined. */
const isGrave = ({ suspicions }: StoredDelivery): boolean => suspicions + 1 >= QUARANTINE_AFTER

const hasLostClaim = ({ status, token }: StoredDelivery): boolean => status === 'pending' && token !== null

const kindOf = ({ status }: StoredDelivery): 'pending' | 'timed' =>
  status === 'pending' ? 'pending' : 'timed'

const ALONE = 'alone'

export class Admission {
  readonly #parts: AdmissionParts
  /** Rows of these lanes that are still to be counted as suspects, after an unclean takeover. */
  readonly #suspectLanes = new Set<number>()
  readonly #suspectsLeft = { pending: 0, timed: 0 }
  /**
   * Of those whose counting was not answered: they keep their place among the suspects, and the token under which they may
   * have been counted. With that they are counted once.
   */
  readonly #unanswered = new Map<string, string>()
  /** Suspects that wait for being queued, with what was counted; those that will run alone are not counted yet. */
  readonly #waiting = new Map<string, SuspectedDelivery | typeof ALONE>()
  #workerId = ''
  #allReadBy = -1
  /** Dead without being sent, not yet written: they are never in a queue, but must not be read again either. */
  readonly #burying = new Map<string, string | null>()
  readonly #holding = new Set<string>()
  /** Held by now, but a claim that began before shows them as pending. */
  readonly #heldLately = new Map<string, object>()

  constructor(parts: AdmissionParts) {
    this.#parts = parts
  }

  isInFlight(id: string): boolean {
    return this.#parts.dispatcher.queues.has(id) || this.#burying.has(id) || this.#holding.has(id)
  }

  /** The database was told to keep it, perhaps after it was claimed, so nobody may begin to send it. */
  isBeingHeld(id: string): boolean {
    return this.#holding.has(id) || this.#heldLately.has(id)
  }

  /** What ran when the former owner ended is among the first rows: as many as can be under way at once. */
  suspectLanes(lanes: readonly number[]): void {
    if (lanes.length === 0) return
    const { mostUnderWay } = this.#parts.tuning
    // Lanes of an earlier takeover whose rows were all counted are nobody's suspects any more.
    if (this.#suspectsLeft.pending + this.#suspectsLeft.timed === 0) this.#suspectLanes.clear()
    for (const lane of lanes) this.#suspectLanes.add(lane)
    // Of either kind: a crowd of retries must not hide the event behind them that ended the process.
    this.#suspectsLeft.pending = mostUnderWay
    this.#suspectsLeft.timed = mostUnderWay
  }

  /** The youngest read of which everything that was due has been queued, by its number. */
  get allReadBy(): number {
    return this.#allReadBy
  }

  /** Everything that was due when the lanes were taken has been read and queued: what comes from now on is new. */
  allRead(readId: number): void {
    this.#allReadBy = readId
    this.#waiting.clear()
    this.#unanswered.clear()
    this.#suspectLanes.clear()
    this.#suspectsLeft.pending = 0
    this.#suspectsLeft.timed = 0
  }

  async admit(rows: readonly StoredDelivery[], read: ReadFacts): Promise<Admitted> {
    const { workerId, stillOurs } = read
    const open = rows.filter(({ id }) => !this.isInFlight(id))
    const behind = open.filter((row) => row.behind)
    const clear = open.filter((row) => !row.behind)
    for (const { id } of behind) this.#holding.add(id)
    const { gone, unheld } = await this.#ask(workerId, clear, behind).finally(() => this.#wereHeld(behind))
    if (!stillOurs()) return { goBackTo: lowest(open), blocked: false, handled: 0, full: false }
    let goBackTo = lowest(unheld)
    let full = false
    let handled = behind.length - unheld.length
    // In the order in which they were read. After the first that does not fit none is tried: a smaller one
    // behind it could be of the same key.
    let blocked = unheld.length > 0
    const right: Right = { kind: 'lane', workerId }
    /** A suspect that could not be counted may still be there, and then it comes first. */
    const uncounted = new Set(clear.flatMap(({ id, key }) => (gone.has(id) ? [key] : [])))
    for (const row of clear) {
      if (gone.has(row.id) || !this.#parts.owns(row.lane)) continue
      const isBehind = row.key !== null && uncounted.has(row.key)
      const waits = isBehind || this.#waitsForBurial(row) || !this.#isCertain(row.key, read)
      blocked ||= waits
      if (!waits) full ||= !this.#offer(row, right, read.readAt)
      if (!waits && !full) {
        handled += 1
        this.#waiting.delete(row.id)
      }
      if ((waits || full) && row.status === 'pending') goBackTo = smaller(goBackTo, row.seq)
    }
    return { goBackTo, blocked, handled, full }
  }

  #isCertain(key: string | null, { readId, unsure }: ReadFacts): boolean {
    return key === null || (!unsure.has(key) && this.#parts.isCurrent(key, readId))
  }

  /** A dead head that keeps its key waiting is being written: until then the database does not say so. */
  #waitsForBurial(row: StoredDelivery): boolean {
    if (row.key === null || this.#burying.size === 0 || this.#parts.destination.deadHead === 'skip')
      return false
    return [...this.#burying.values()].includes(row.key)
  }

  #isSuspect(row: StoredDelivery): boolean {
    if (hasLostClaim(row)) return true
    if (this.#unanswered.has(row.id)) return true
    const kind = kindOf(row)
    if (this.#suspectsLeft[kind] === 0 || !this.#suspectLanes.has(row.lane)) return false
    this.#suspectsLeft[kind] -= 1
    return true
  }

  /** Counts those that were not counted yet. Returns the ids that turned out not to be ours to send any more. */
  async #suspectAmong(workerId: string, rows: readonly StoredDelivery[]): Promise<ReadonlySet<string>> {
    // Under another worker id these are other takeovers.
    if (workerId !== this.#workerId) {
      this.#waiting.clear()
      this.#unanswered.clear()
    }
    this.#workerId = workerId
    const fresh = rows.filter((row) => !this.#waiting.has(row.id) && this.#isSuspect(row))
    if (fresh.length === 0) return new Set()
    const isCounted = ({ id, token }: StoredDelivery): boolean =>
      token !== null && token === this.#unanswered.get(id)
    const light: string[] = []
    for (const row of fresh) {
      if (isGrave(row) && !isCounted(row)) this.#waiting.set(row.id, ALONE)
      else light.push(row.id)
    }
    const token = this.#parts.newToken()
    for (const { id } of fresh) if (!this.#unanswered.has(id)) this.#unanswered.set(id, token)
    const counted = await this.#countLight(workerId, light).catch((error) => {
      for (const { id } of fresh) this.#waiting.delete(id)
      throw error
    })
    for (const { id } of fresh) this.#unanswered.delete(id)
    for (const [id, count] of counted) this.#waiting.set(id, count)
    return new Set(light.filter((id) => !counted.has(id)))
  }

  /** In one call, unless earlier ones were not answered: those are said again as they were. */
  async #countLight(
    workerId: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, SuspectedDelivery>> {
    const byToken = new Map<string, string[]>()
    for (const id of ids) {
      const token = this.#unanswered.get(id) as string
      const same = byToken.get(token)
      if (same === undefined) byToken.set(token, [id])
      else same.push(id)
    }
    const counted = new Map<string, SuspectedDelivery>()
    for (const [token, some] of byToken)
      for (const row of await this.#countSuspects(workerId, some, token)) counted.set(row.id, row)
    return counted
  }

  /** For one that runs alone, immediately before it does. Null: it is not ours to send any more. */
  async suspect({ id, right }: Delivery): Promise<SuspectedDelivery | null> {
    if (right.kind !== 'lane') return null
    return (await this.#countSuspects(right.workerId, [id], this.#parts.newToken()))[0] ?? null
  }

  async #countSuspects(
    workerId: string,
    ids: readonly string[],
    token: string,
  ): Promise<readonly SuspectedDelivery[]> {
    const { store, metrics, destination } = this.#parts
    metrics.suspects(destination.name, ids.length)
    return store.queue.suspect({ workerId, ids, token, spendFrom: QUARANTINE_AFTER })
  }

  async #ask(workerId: string, clear: readonly StoredDelivery[], behind: readonly StoredDelivery[]) {
    const gone = await this.#suspectAmong(workerId, clear)
    return { gone, unheld: await this.#hold(workerId, behind) }
  }

  #wereHeld(rows: readonly StoredDelivery[]): void {
    if (rows.length === 0) return
    const mark = {}
    for (const { id } of rows) {
      this.#holding.delete(id)
      this.#heldLately.set(id, mark)
    }
    this.#parts.afterReads(() => {
      for (const { id } of rows) if (this.#heldLately.get(id) === mark) this.#heldLately.delete(id)
    })
  }

  /** Returns the rows that are not held: their holder went away, or it is an unrouted row. */
  async #hold(workerId: string, rows: readonly StoredDelivery[]): Promise<readonly StoredDelivery[]> {
    if (rows.length === 0) return rows
    const { store, destination } = this.#parts
    const held = new Set(
      await store.queue.hold(
        workerId,
        destination.name,
        rows.map(({ id }) => id),
      ),
    )
    return rows.filter(({ id }) => !held.has(id))
  }

  #offer(row: StoredDelivery, right: Right, readAt: number): boolean {
    const suspicion = this.#waiting.get(row.id) ?? null
    const delivery = new ColdDelivery(row, right, readAt, suspicion)
    if (row.event !== null) return this.#parts.dispatcher.enqueueCold(delivery)
    this.#bury(delivery, {
      code: ERROR_CODES.undecodable,
      message: `the stored event cannot be read: ${row.problem ?? 'no reason known'}`,
    })
    return true
  }

  #bury(delivery: Delivery, why: Pick<AttemptFailure, 'code' | 'message'>): void {
    const { dispatcher, logger, metrics, destination } = this.#parts
    logger.log('error', 'a delivery is dead without being sent', {
      destination: destination.name,
      event: delivery.event.id,
      delivery: delivery.id,
      reason: why.message,
    })
    metrics.dispatchDead(destination.name, 1)
    metrics.addDead(destination.name, 1)
    const failure = { ...why, attempt: delivery.attempts, durationMs: 0, stack: null }
    this.#burying.set(delivery.id, delivery.event.key)
    // A read from before may still show the key without its dead head.
    const buried = (): void => this.#parts.afterReads(() => this.#burying.delete(delivery.id))
    dispatcher.settleUnsent(delivery, { kind: 'dead', failure }, buried)
  }
}

const lowest = (rows: readonly StoredDelivery[]): bigint | null =>
  rows.reduce<bigint | null>((least, { seq }) => smaller(least, seq), null)

const smaller = (a: bigint | null, b: bigint | null): bigint | null =>
  a === null ? b : b === null || a < b ? a : b

/** No literal, because there are thousands: see "Memory" in ARCHITECTURE.md. */
const ColdDelivery = plain<
  [row: StoredDelivery, right: Right, readAt: number, suspicion: SuspectedDelivery | typeof ALONE | null],
  Delivery
>(function (row, right, readAt, suspicion) {
  this.id = row.id
  this.event = row.event ?? missingEvent(row)
  this.destination = row.destination
  this.run = row.run
  this.lane = row.lane
  this.seq = row.seq
  this.attempts = suspicion === ALONE || suspicion === null ? row.attempts : suspicion.attempts
  this.attemptSpent = false
  this.alone = suspicion === ALONE
  this.holdsKey = row.holdsKey
  this.right = right
  this.source = 'cold'
  this.timed = row.status !== 'pending'
  this.suspected = suspicion !== ALONE && suspicion !== null
  this.dueAt = row.dueForMs === undefined ? undefined : readAt - row.dueForMs
})

/** Stands in for an event that is not there, so that its delivery can be settled like any other. */
const missingEvent = (row: StoredDelivery): EventRecord => ({
  id: row.id,
  type: '',
  version: 0,
  key: row.key,
  aggregateType: null,
  aggregateId: null,
  tenantId: null,
  headers: {},
  contentType: '',
  data: '',
  size: 0,
  occurredAtMs: 0,
  createdAtMs: 0,
  replacesId: null,
})
