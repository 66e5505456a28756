/**
 * The places that events are sent to. A sink writes down what arrives, and is as unreliable as the seed says: it
 * refuses, cannot be reached, answers too late or not at all after it has received something.
 */
import { OutageError, PermanentError, RetryAfter } from '../src/core/errors.ts'
import type { Listener } from '../src/core/listeners.ts'
import type { OutgoingDelivery, Publisher, SendResult } from '../src/core/spi/index.ts'
import type { Boot } from './boot.ts'
import type { Ledger } from './ledger.ts'
import type { DestinationPlan } from './plan.ts'
import { type Parcel, SinkLog } from './sink-log.ts'
import { numberOf, type Receipt } from './truth.ts'
import type { World } from './world.ts'

/** What a sink does with one delivery. */
type Answer = { readonly takes: boolean; readonly error: Error | null }

const TAKES: Answer = { takes: true, error: null }

export class Sinks {
  readonly #world: World
  readonly #log: SinkLog
  readonly #outageUntil = new Map<string, number>()

  constructor(world: World, ledger: Ledger) {
    this.#world = world
    this.#log = new SinkLog(world, ledger)
  }

  beginOutage(destination: string, durationMs: number): void {
    this.#world.note(destination, `*cannot be reached for ${Math.round(durationMs)} ms`)
    this.#outageUntil.set(destination, this.#world.now + durationMs)
  }

  heal(): void {
    this.#outageUntil.clear()
  }

  #isOut(destination: string): boolean {
    return (this.#outageUntil.get(destination) ?? 0) > this.#world.now
  }

  // ---------------------------------------------------------------------------------------- publishers

  publisher(boot: Boot, plan: DestinationPlan): Publisher {
    let sending = 0
    return {
      maxBatch: plan.maxBatch,
      orderedPrefix: plan.kind === 'ordered',
      send: async (deliveries) => {
        const parcels = deliveries.map(toParcel)
        sending += 1
        this.#log.checkBounds(boot, plan, parcels, sending)
        try {
          return await this.#send(boot, plan, parcels)
        } finally {
          sending -= 1
        }
      },
    }
  }

  #send(boot: Boot, plan: DestinationPlan, parcels: readonly Parcel[]): Promise<readonly SendResult[]> {
    const world = this.#world
    const { scheduler, network } = world
    return new Promise((resolve, reject) => {
      if (!boot.alive) return
      this.#log.depart(boot, plan, parcels)
      const survivesCrash = network.chance(0.5)
      const stallMs = world.strikes('sinkStalls', network) ? this.#stallMs() : 0
      const late = stallMs > 0 && network.chance(0.5)
      // Its sender may give up waiting before it has even arrived.
      if (stallMs > 0) this.#log.countFailure(parcels)
      const answer = (delayMs: number, then: () => void): void => {
        const land = (): void => {
          for (const { deliveryId } of parcels) boot.inFlight.delete(deliveryId)
          then()
        }
        scheduler.after(delayMs, land, boot)
      }
      const arrive = (): void => {
        if (!boot.alive && !survivesCrash) return
        if (this.#isOut(plan.name)) {
          this.#log.countOutage(parcels)
          answer(world.latency(), () => reject(new OutageError('nobody answers')))
          return
        }
        const receipts = this.#receiveAll(boot, plan, parcels)
        if (receipts === null) return
        if (world.strikes('sinkDuplicates', network)) this.#copy(boot, plan, parcels, receipts.received)
        const backMs = world.latency() + (late ? 0 : stallMs)
        if (stallMs > 0) for (const receipt of receipts.received) receipt.replyFailed = true
        if (!world.strikes('sinkLosesReply', network)) answer(backMs, () => resolve(receipts.results))
        else this.#loseReply(parcels, receipts.received, (error) => answer(backMs, () => reject(error)))
      }
      scheduler.after(world.latency() + (late ? stallMs : 0), arrive)
    })
  }

  /** What was taken comes a second time, because something on the way sent it again. */
  #copy(boot: Boot, plan: DestinationPlan, parcels: readonly Parcel[], received: readonly Receipt[]): void {
    const ids = new Set(received.map(({ deliveryId }) => deliveryId))
    const again = parcels.filter(({ deliveryId }) => ids.has(deliveryId))
    this.#world.scheduler.after(this.#world.network.between(0, 1_000), () => {
      for (const parcel of again) this.#log.arrived(boot, plan, parcel, true, true)
    })
  }

  /** Everything of one send, in order; null when the process did not survive it. */
  #receiveAll(
    boot: Boot,
    plan: DestinationPlan,
    parcels: readonly Parcel[],
  ): { readonly results: readonly SendResult[]; readonly received: readonly Receipt[] } | null {
    const results: SendResult[] = []
    const received: Receipt[] = []
    let broken = false
    for (const parcel of parcels) {
      if (broken && plan.kind === 'ordered') {
        // A prefix was taken; what follows never got there and is told so.
        this.#world.truth.answersFor(parcel.deliveryId).failures += 1
        results.push({ ok: false, error: new Error('not taken, because one before it was not') })
        continue
      }
      const answer = this.#decide(boot, plan, parcel)
      if (answer === null) return null
      const receipt = this.#log.arrived(boot, plan, parcel, answer.takes)
      if (receipt !== null) received.push(receipt)
      if (answer.error === null) results.push({ ok: true })
      else {
        broken = true
        results.push({ ok: false, error: answer.error })
      }
    }
    return { results, received }
  }

  // ----------------------------------------------------------------------------------------- listeners

  listener(boot: Boot, plan: DestinationPlan): Listener {
    let running = 0
    return async (event, { deliveryId, run, attempt }) => {
      const { data, replacesId } = event
      const parcel: Parcel = {
        n: numberOf(data),
        deliveryId,
        run,
        attempt,
        data,
        edited: replacesId !== null,
        deduplicationId: null,
      }
      running += 1
      this.#log.checkBounds(boot, plan, [parcel], running)
      try {
        await this.#hear(boot, plan, parcel)
      } finally {
        boot.inFlight.delete(deliveryId)
        running -= 1
      }
    }
  }

  async #hear(boot: Boot, plan: DestinationPlan, parcel: Parcel): Promise<void> {
    const world = this.#world
    const { network, scheduler } = world
    if (!boot.alive) return await new Promise(() => undefined)
    this.#log.depart(boot, plan, [parcel])
    if (network.chance(0.5)) await scheduler.sleep(world.latency(), boot)
    if (this.#isOut(plan.name)) {
      this.#log.countOutage([parcel])
      throw new OutageError('what it needs cannot be reached')
    }
    const stallMs = world.strikes('sinkStalls', network) ? this.#stallMs() : 0
    if (stallMs > 0) this.#world.truth.answersFor(parcel.deliveryId).failures += 1
    const late = stallMs > 0 && network.chance(0.5)
    if (late) await scheduler.sleep(stallMs, boot)
    const answer = this.#decide(boot, plan, parcel)
    if (answer === null) return await new Promise(() => undefined)
    const receipt = this.#log.arrived(boot, plan, parcel, answer.takes)
    if (receipt !== null && stallMs > 0) receipt.replyFailed = true
    if (answer.error !== null) throw answer.error
    if (stallMs > 0 && !late) await scheduler.sleep(stallMs, boot)
    if (receipt === null || !world.strikes('sinkLosesReply', network)) return
    receipt.replyFailed = true
    this.#world.truth.answersFor(parcel.deliveryId).failures += 1
    throw new Error('it failed after its work was done')
  }

  // -------------------------------------------------------------------------------------------- common

  /** Null: the process is gone. */
  #decide(boot: Boot, plan: DestinationPlan, { n, deliveryId }: Parcel): Answer | null {
    const world = this.#world
    const { network, truth } = world
    const answers = truth.answersFor(deliveryId)
    if (world.phase === 'safety' && truth.facts.get(n)?.poison.has(plan.name) === true) {
      world.count('poison')
      answers.kills += 1
      this.#log.judgeKills(plan, n, answers.kills)
      boot.crash(`e${n} ends it`)
      return null
    }
    if (world.strikes('sinkBuries', network)) {
      answers.buried = true
      answers.failures += 1
      return { takes: false, error: new PermanentError('never') }
    }
    if (world.strikes('sinkAsksForTime', network)) {
      const counted = network.chance(0.5)
      if (counted) answers.failures += 1
      return { takes: false, error: new RetryAfter(network.whole(0, 800), { counted }) }
    }
    if (world.strikes('sinkRefuses', network)) {
      answers.failures += 1
      return { takes: false, error: new Error('refused') }
    }
    return TAKES
  }

  #loseReply(parcels: readonly Parcel[], received: readonly Receipt[], fail: (error: Error) => void): void {
    const outage = this.#world.network.chance(0.5)
    this.#log.failReplies(parcels, received, outage ? 'outage' : 'counted')
    fail(outage ? new OutageError('the connection broke') : new Error('the answer made no sense'))
  }

  /** Long enough to meet timeouts, hard deadlines and leases. */
  #stallMs(): number {
    const { network, plan } = this.#world
    return network.between(0.1, 1.5) * network.pick([plan.settings.hardDeadlineMs, plan.settings.laneLeaseMs])
  }
}

const toParcel = ({ event, deliveryId, run, attempt, deduplicationId }: OutgoingDelivery): Parcel => ({
  n: numberOf(event.data),
  deliveryId,
  run,
  attempt,
  data: event.data,
  edited: event.replacesId !== null,
  deduplicationId,
})
