/**
 * Lanes: who may deliver what. This process registers as a worker, leases lanes of the destinations it
 * serves and renews everything with one statement.
 *
 *   register ──► survey ──► take free lanes up to our share ──► renew … renew ──► retire (clean end)
 *                  ▲                                              │
 *                  └── surplus: stop using it, wait until nothing of it is in flight, give it up
 *   fenced (our lease ran out and somebody noticed): everything we hold is void; start anew under a new id.
 *
 * Guarantees
 * - Others are fenced only after a whole lease of silence by our own clock (`LeaseWatch`).
 * - `isValid` is true only while the database cannot have given our lanes away: the local deadline starts
 *   before the statement is sent, and by the monotonic clock.
 * - A lane is given up only when nothing of it is queued, claimed or in flight here.
 */
import { isToBeMended } from '../errors.ts'
import { LANES } from '../model/lane.ts'
import { CHANNELS, type LanesMessage, tell } from '../runtime/channels.ts'
import type {
  Cancel,
  LaneSurvey,
  Logger,
  Metrics,
  OwnedLane,
  Runtime,
  SilentWorker,
  Store,
} from '../spi/index.ts'
import type { LaneEvents, LaneOptions } from './lane-events.ts'
import type { LeaseWatch } from './lease-watch.ts'
import { Trouble } from './trouble.ts'

/** While others could fail or lanes are missing, look this often: a takeover shall not wait for a renewal. */
const WATCH_MS = 500

const laneOf = ({ lane }: OwnedLane): number => lane

export class Lanes {
  readonly #store: Store
  readonly #runtime: Runtime
  readonly #logger: Logger
  readonly #metrics: Metrics
  readonly #options: LaneOptions
  readonly #events: LaneEvents
  readonly #newId: () => string
  readonly #watch: LeaseWatch
  readonly #trouble: Trouble
  /** Lane → epoch, by destination. */
  readonly #owned = new Map<string, Map<number, number>>()
  readonly #leaving = new Map<string, Set<number>>()
  /** Given up, but the answer was lost: not ours to use, whatever the database says. */
  readonly #unanswered = new Map<string, readonly OwnedLane[]>()
  #workerId: string
  #registered = false
  #validUntil = Number.NEGATIVE_INFINITY
  #renewAt = Number.NEGATIVE_INFINITY
  #othersAlive = true
  #losses = 0
  #timer: Cancel | null = null
  #round: Promise<void> | null = null
  #stopped = false

  constructor(
    parts: {
      readonly store: Store
      readonly runtime: Runtime
      readonly logger: Logger
      readonly metrics: Metrics
      readonly newId: () => string
      readonly watch: LeaseWatch
    },
    options: LaneOptions,
    events: LaneEvents,
  ) {
    this.#store = parts.store
    this.#runtime = parts.runtime
    this.#logger = parts.logger
    this.#metrics = parts.metrics
    this.#newId = parts.newId
    this.#watch = parts.watch
    this.#trouble = new Trouble(parts.runtime, parts.logger)
    this.#options = options
    this.#events = events
    this.#workerId = parts.newId()
    for (const destination of options.destinations) {
      this.#owned.set(destination, new Map())
      this.#leaving.set(destination, new Set())
    }
  }

  get workerId(): string {
    return this.#workerId
  }

  /** Rights under this worker id certainly hold now. */
  isValid(workerId: string): boolean {
    return this.#registered && workerId === this.#workerId && this.#runtime.monotonicNow() < this.#validUntil
  }

  /** The lane may be read and claimed from; one that we are leaving may not. */
  owns(destination: string, lane: number): boolean {
    return this.#owned.get(destination)?.has(lane) === true && !this.#leaving.get(destination)?.has(lane)
  }

  /** Lanes to read; null when there are none. `all` spares the database the filter. */
  readable(destination: string): { readonly lanes: readonly number[]; readonly all: boolean } | null {
    const owned = this.#owned.get(destination)
    const leaving = this.#leaving.get(destination)
    if (!owned || owned.size === 0) return null
    const all = [...owned.keys()]
    const lanes = leaving && leaving.size > 0 ? all.filter((lane) => !leaving.has(lane)) : all
    return lanes.length === 0 ? null : { lanes, all: lanes.length === LANES }
  }

  /** Grows whenever lanes left this process; what was read before may have been delivered by others since. */
  get losses(): number {
    return this.#losses
  }

  count(destination: string): number {
    return this.#owned.get(destination)?.size ?? 0
  }

  /** Enters, and then goes on by itself until `stop`. */
  async start(): Promise<void> {
    await this.enter()
    this.#arm()
  }

  /**
   * The first round: registers and takes what is free. It fails with what somebody has to mend, such as a right that is
   * missing: going on would look like a process that delivers.
   */
  async enter(): Promise<void> {
    await this.beat()
    if (isToBeMended(this.#trouble.met)) throw this.#trouble.met
  }

  /** One round: renew when it is time, survey, take and give up. Rounds never overlap. */
  beat(): Promise<void> {
    // Whoever was still starting takes no lanes after the end: nobody would give them back.
    if (this.#stopped) return this.#round ?? Promise.resolve()
    this.#round ??= this.#beat().finally(() => {
      this.#round = null
    })
    return this.#round
  }

  /**
   * Stops the rounds. With `clean` the lanes are freed at once; without, something may still be in flight,
   * so the lease has to run out first.
   */
  async stop(clean: boolean): Promise<void> {
    this.#stopped = true
    this.#timer?.()
    this.#timer = null
    await this.#round?.catch(() => undefined)
    if (!this.#registered) return
    this.#registered = false
    for (const destination of this.#options.destinations) this.#metrics.lanesOwned(destination, 0)
    if (clean) await this.#store.lanes.retire(this.#workerId)
  }

  #arm(): void {
    if (this.#stopped) return
    const watching = this.#othersAlive || this.#options.destinations.some((name) => this.count(name) < LANES)
    const now = this.#runtime.monotonicNow()
    const due = Math.max(1, this.#renewAt - now)
    const delayMs = watching ? Math.min(WATCH_MS, due, this.#watch.nextInMs(now) ?? due) : due
    this.#timer = this.#runtime.schedule(delayMs, () => {
      this.#timer = null
      void this.beat().then(() => this.#arm())
    })
  }

  async #beat(): Promise<void> {
    try {
      if (!this.#registered) await this.#register()
      else if (this.#runtime.monotonicNow() >= this.#renewAt && !(await this.#renew())) return
      await this.#balance()
      this.#trouble.ends('lanes are renewed and balanced again', { worker: this.#workerId })
    } catch (error) {
      this.#trouble.meets(error, 'lanes could not be renewed or balanced; tried again shortly', {
        worker: this.#workerId,
      })
      // Soon again, but not in a busy loop against a database that is down.
      const soon = this.#runtime.monotonicNow() + Math.min(WATCH_MS, this.#options.renewMs)
      this.#renewAt = this.#renewAt < soon ? soon : this.#renewAt
    }
  }

  async #register(): Promise<void> {
    const sentAt = this.#runtime.monotonicNow()
    const { leaseMs, destinations } = this.#options
    const name = this.#runtime.processName
    await this.#store.lanes.register({ workerId: this.#workerId, name, leaseMs, destinations })
    this.#registered = true
    this.#extendFrom(sentAt)
  }

  async #renew(): Promise<boolean> {
    const sentAt = this.#runtime.monotonicNow()
    const open = this.#events.openBreakers()
    if (await this.#store.lanes.renew(this.#workerId, this.#options.leaseMs, open)) {
      this.#extendFrom(sentAt)
      this.#events.renewed()
      return true
    }
    this.#startAnew()
    return false
  }

  #extendFrom(sentAt: number): void {
    this.#validUntil = sentAt + this.#options.leaseMs
    this.#renewAt = sentAt + this.#options.renewMs
  }

  /** Somebody fenced us: nothing under the old id counts any more. The next round registers the new id. */
  #startAnew(): void {
    const old = this.#workerId
    this.#losses += 1
    this.#workerId = this.#newId()
    this.#registered = false
    this.#validUntil = Number.NEGATIVE_INFINITY
    this.#renewAt = Number.NEGATIVE_INFINITY
    for (const destination of this.#options.destinations) {
      this.#lost(destination, [...(this.#owned.get(destination)?.keys() ?? [])], old)
      this.#owned.get(destination)?.clear()
      this.#leaving.get(destination)?.clear()
      this.#unanswered.delete(destination)
      this.#report(destination)
    }
    this.#logger.log('warn', 'this worker was fenced after its lease ran out; it starts anew', {
      fenced: old,
      worker: this.#workerId,
    })
    this.#events.fenced(old)
  }

  async #balance(): Promise<void> {
    const { destinations } = this.#options
    let survey = await this.#survey()
    // Some are known to be over at first sight, and a process that comes for one round does not look twice.
    if (this.#silent().length > 0) survey = await this.#survey()
    if (!survey.alive) {
      this.#startAnew()
      return
    }
    this.#othersAlive = false
    for (const destination of destinations) {
      const seen = survey.destinations.get(destination)
      if (seen === undefined) continue
      if (seen.workers > 1) this.#othersAlive = true
      this.#agreeWith(destination, await this.#withoutUnanswered(destination, seen.mine))
      const share = Math.ceil(LANES / Math.max(1, seen.workers))
      const mine = this.count(destination)
      if (mine > share) this.#leaveSurplus(destination, mine - share)
      else {
        this.#stay(destination)
        if (mine < share && seen.free > 0) await this.#take(destination, Math.min(seen.free, share - mine))
      }
      await this.#giveUpIdle(destination)
    }
  }

  async #survey(): Promise<LaneSurvey> {
    const { destinations, leaseMs } = this.#options
    const survey = await this.#store.lanes.survey(this.#workerId, destinations, this.#silent())
    this.#watch.see(survey.others, this.#runtime.monotonicNow(), leaseMs)
    return survey
  }

  #silent(): readonly SilentWorker[] {
    return this.#watch.silent(this.#runtime.monotonicNow())
  }

  /**
   * The database knows best: a reply to `take` or `giveUp` can be lost. A lane that is ours without our
   * knowledge would be served by nobody.
   */
  #agreeWith(destination: string, mine: readonly OwnedLane[]): void {
    const owned = this.#owned.get(destination)
    if (!owned) return
    const truth = new Map(mine.map(({ lane, epoch }) => [lane, epoch]))
    const gone = [...owned].filter(([lane, epoch]) => truth.get(lane) !== epoch)
    if (gone.length > 0) {
      this.#losses += 1
      this.#lost(
        destination,
        gone.map(([lane]) => lane),
      )
    }
    for (const [lane] of gone) owned.delete(lane)
    const unknown = mine.filter(({ lane }) => !owned.has(lane))
    if (unknown.length > 0) this.#gain(destination, unknown, unknown)
  }

  /**
   * A lane that we gave up without hearing that it worked is given up again until we do: the first call may
   * still be on its way, and would free the lane while we use it.
   */
  async #withoutUnanswered(destination: string, mine: readonly OwnedLane[]): Promise<readonly OwnedLane[]> {
    const unanswered = this.#unanswered.get(destination)
    if (unanswered === undefined) return mine
    const still = mine.filter(({ lane, epoch }) =>
      unanswered.some((given) => given.lane === lane && given.epoch === epoch),
    )
    if (still.length > 0) await this.#store.lanes.giveUp(this.#workerId, destination, still)
    this.#unanswered.delete(destination)
    return mine.filter((lane) => !still.includes(lane))
  }

  /** The share grew again: lanes that we were about to leave are used as before. */
  #stay(destination: string): void {
    const leaving = this.#leaving.get(destination)
    if (!leaving || leaving.size === 0) return
    const owned = this.#owned.get(destination)
    const kept = [...leaving].flatMap((lane) => {
      const epoch = owned?.get(lane)
      return epoch === undefined ? [] : [{ lane, epoch }]
    })
    leaving.clear()
    this.#gain(destination, kept, [])
  }

  /** A lane may go when nothing of it is in memory; otherwise a later round looks again. */
  async #giveUpIdle(destination: string): Promise<void> {
    const leaving = this.#leaving.get(destination)
    if (!leaving || leaving.size === 0) return
    const owned = this.#owned.get(destination)
    const idle: OwnedLane[] = []
    for (const lane of leaving) {
      if (this.#events.isBusy(destination, lane)) continue
      const epoch = owned?.get(lane)
      if (epoch !== undefined) idle.push({ lane, epoch })
      leaving.delete(lane)
      owned?.delete(lane)
    }
    if (idle.length === 0) return
    this.#losses += 1
    this.#report(destination)
    this.#tell(destination, 'givenUp', idle.map(laneOf))
    this.#unanswered.set(destination, idle)
    await this.#store.lanes.giveUp(this.#workerId, destination, idle)
    this.#unanswered.delete(destination)
  }

  /** Marks lanes as leaving; those that we were already leaving count. */
  #leaveSurplus(destination: string, surplus: number): void {
    const leaving = this.#leaving.get(destination)
    const owned = this.#owned.get(destination)
    if (!leaving || !owned || leaving.size >= surplus) return
    // Those first of which nothing is under way: the others would be read by nobody until a slow handler has ended.
    const underWay = new Set([...owned.keys()].filter((lane) => this.#events.isUnderWay(destination, lane)))
    const idle = [...owned.keys()].filter((lane) => !underWay.has(lane))
    for (const lane of [...idle, ...underWay]) {
      if (leaving.size >= surplus) return
      leaving.add(lane)
    }
  }

  async #take(destination: string, atMost: number): Promise<void> {
    const workerId = this.#workerId
    const taken = await this.#store.lanes.take(workerId, destination, atMost)
    if (taken.length === 0 || workerId !== this.#workerId) return
    const unclean = taken.filter(({ clean }) => !clean)
    if (unclean.length > 0) this.#metrics.lanesTakenOver(destination, unclean.length)
    if (unclean.length > 0) this.#tell(destination, 'takenOver', unclean.map(laneOf))
    this.#gain(destination, taken, unclean)
  }

  #gain(destination: string, gained: readonly OwnedLane[], unclean: readonly OwnedLane[]): void {
    const owned = this.#owned.get(destination)
    for (const { lane, epoch } of gained) owned?.set(lane, epoch)
    this.#report(destination)
    this.#tell(destination, 'gained', gained.map(laneOf))
    this.#events.changed(destination, { gained: gained.map(laneOf), unclean: unclean.map(laneOf) })
  }

  #lost(destination: string, lanes: readonly number[], worker = this.#workerId): void {
    if (lanes.length === 0) return
    this.#metrics.lanesLost(destination, lanes.length)
    this.#tell(destination, 'lost', lanes, worker)
  }

  #tell(
    destination: string,
    change: LanesMessage['change'],
    lanes: readonly number[],
    worker = this.#workerId,
  ): void {
    if (CHANNELS.lanes.hasSubscribers) tell('lanes', { destination, worker, change, lanes })
  }

  #report(destination: string): void {
    this.#metrics.lanesOwned(destination, this.count(destination))
  }
}
