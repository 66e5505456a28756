/** What the sinks write down of every arrival, and what is judged while they do. */
import { QUARANTINE_AFTER } from '../src/core/flow/admission.ts'
import type { Boot } from './boot.ts'
import { judgeArrival } from './check-arrival.ts'
import type { Ledger } from './ledger.ts'
import { type DestinationPlan, mostAtOnce } from './plan.ts'
import type { Receipt } from './truth.ts'
import type { World } from './world.ts'

export interface Parcel {
  readonly n: number
  readonly deliveryId: string
  readonly run: number
  readonly attempt: number
  readonly data: string | Uint8Array
  readonly edited: boolean
  /** What the receiver should deduplicate by; null for a listener, which is not told. */
  readonly deduplicationId: string | null
}

/** How often a takeover may fail to suspect the very row that ended the process before. */
const MISSED_SUSPICIONS = 2
/** What was on its way out when the news came. */
const PAUSE_GRACE_MS = 20

export class SinkLog {
  readonly #world: World
  readonly #ledger: Ledger
  readonly #deduplicated = new Map<string, string>()

  constructor(world: World, ledger: Ledger) {
    this.#world = world
    this.#ledger = ledger
  }

  depart(boot: Boot, plan: DestinationPlan, parcels: readonly Parcel[]): void {
    for (const { deliveryId } of parcels) {
      boot.inFlight.add(deliveryId)
      this.#world.truth.answersFor(deliveryId).sends += 1
    }
    this.#judgePause(boot, plan.name, parcels)
    const what = parcels
      .map(({ attempt, run }) => `${run > 1 ? `run ${run}, ` : ''}attempt ${attempt}`)
      .join('; ')
    this.#world.note(
      boot.name,
      `sends to ${plan.name}: ${what}`,
      parcels.map(({ n }) => n),
    )
  }

  /**
   * An event that ends its process is buried after its limit. Until it is suspected for the third time it runs for
   * free; a takeover may miss it now and then, because only the first rows of a lane are suspected.
   */
  judgeKills({ name, maxAttempts }: DestinationPlan, n: number, kills: number): void {
    const most = QUARANTINE_AFTER + maxAttempts + MISSED_SUSPICIONS
    if (kills <= most) return
    this.#world.violate('5 attempts', `e${n} has ended ${kills} processes at ${name} and is still sent`, [n])
  }

  /** Who knows that a destination is paused begins nothing new there. */
  #judgePause(boot: Boot, destination: string, parcels: readonly Parcel[]): void {
    const { truth, now } = this.#world
    const [since, known] = [truth.pausedSince.get(destination), boot.knowsPaused.get(destination)]
    if (since === undefined || known === undefined || known < since || now - known < PAUSE_GRACE_MS) return
    this.#world.violate(
      '7 finished is final',
      `${boot.name} sends to ${destination}, which it knows to be paused`,
      parcels.map(({ n }) => n),
    )
  }

  /** Bytes stay bytes, and a receiver that deduplicates swallows repetitions alone. */
  #judgeContent(destination: string, { n, run, data, edited, deduplicationId }: Parcel): void {
    const world = this.#world
    if (!edited && data !== world.truth.facts.get(n)?.data) {
      world.violate('2 no ghost', `e${n} arrived at ${destination} with other bytes than were published`, [n])
    }
    if (deduplicationId === null) return
    const what = `${n} run ${run}${edited ? ' edited' : ''}`
    const first = this.#deduplicated.get(deduplicationId) ?? what
    this.#deduplicated.set(deduplicationId, first)
    if (first === what) return
    world.violate('3 duplicates', `e${first} and e${what} have the same deduplication id`, [n])
  }

  arrived(
    boot: Boot,
    { name }: DestinationPlan,
    parcel: Parcel,
    taken: boolean,
    copied = false,
  ): Receipt | null {
    const world = this.#world
    const { n, deliveryId, run } = parcel
    this.#judgeContent(name, parcel)
    world.note(name, taken ? `receives e${n}` : `refuses e${n}`, [n])
    const journey = judgeArrival(world, this.#ledger, name, parcel)
    if (journey === null || !taken) return null
    journey.acceptedAt ??= world.scheduler.steps
    const receipt: Receipt = {
      deliveryId,
      run,
      boot: boot.name,
      step: world.scheduler.steps,
      atMs: world.now,
      // A sender that stands still may find its deadline passed when it wakes.
      replyFailed: boot.pausedUntil > world.now || boot.doubtful.has(deliveryId),
      copied,
      settled: false,
      rightLost: false,
      senderGone: !boot.alive,
    }
    journey.receipts.push(receipt)
    return receipt
  }

  failReplies(parcels: readonly Parcel[], received: readonly Receipt[], how: 'counted' | 'outage'): void {
    for (const receipt of received) receipt.replyFailed = true
    if (how === 'outage') this.countOutage(parcels)
    else this.countFailure(parcels)
  }

  countFailure(parcels: readonly Parcel[]): void {
    for (const { deliveryId } of parcels) this.#world.truth.answersFor(deliveryId).failures += 1
  }

  countOutage(parcels: readonly Parcel[]): void {
    for (const { deliveryId } of parcels) this.#world.truth.answersFor(deliveryId).outages += 1
  }

  checkBounds(boot: Boot, plan: DestinationPlan, parcels: readonly Parcel[], running: number): void {
    // A send that its sender gave up waiting for is still running here.
    const { sinkStalls, pause } = this.#world.plan.faults
    if (running > mostAtOnce(this.#world.plan, plan) && sinkStalls === 0 && pause === 0) {
      this.#world.violate('8 bounds', `${boot.name} sends ${running} batches to ${plan.name} at once`)
    }
    if (parcels.length > plan.maxBatch) {
      this.#world.violate(
        '8 bounds',
        `${boot.name} sends ${parcels.length} deliveries to ${plan.name} in one batch`,
      )
    }
  }
}
