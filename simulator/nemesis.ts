/** What goes wrong and who intervenes: processes end, stand still and are replaced; operators act at bad moments. */
import type { DeliveryRow } from '../src/stores/memory/rows.ts'
import { Boot } from './boot.ts'
import type { Ledger } from './ledger.ts'
import { operatorsDesk } from './network.ts'
import { type Fault, MOST_TUNED, type ProcessPlan } from './plan.ts'
import type { Random } from './random.ts'
import type { Sinks } from './sinks.ts'
import { numberOf } from './truth.ts'
import { EPOCH_MS, type World } from './world.ts'

const TICK_MS = 100
/** How far the database's clock jumps, and how far it can be off if it may go back. */
export const MOST_CLOCK_STEP_MS = 4_000

export class Nemesis {
  readonly boots = new Map<string, Boot>()
  /** The run is over: who stops now stays down. */
  closing = false
  readonly #world: World
  readonly #ledger: Ledger
  readonly #sinks: Sinks
  readonly #acts: Random
  readonly #lives = new Map<string, number>()
  /** What operators have asked for and not heard of, by whom they asked. */
  readonly #asked = new Set<{ readonly desk: Boot }>()

  constructor(world: World, ledger: Ledger, sinks: Sinks) {
    this.#world = world
    this.#ledger = ledger
    this.#sinks = sinks
    this.#acts = world.stream('acts')
  }

  get usable(): Boot[] {
    return [...this.boots.values()].filter(({ alive, ready, stopping }) => alive && ready && !stopping)
  }

  /** An operator's wish may be carried out late; what it brings back has to arrive as well. */
  get busy(): boolean {
    return [...this.#asked].some(({ desk }) => desk.alive)
  }

  startAll(): void {
    for (const plan of this.#world.plan.processes) {
      this.#world.scheduler.after(this.#world.nemesis.between(0, 800), () => this.#boot(plan))
    }
    this.#tick()
  }

  /** Faults stop: everybody comes up in the newest version, and nothing is paused. */
  recover(): void {
    const { plan } = this.#world
    this.#sinks.heal()
    const first = this.boots.get(plan.processes[0]?.name ?? '')
    const outdated = plan.upgradeAtMs !== null && first?.newVersion === false
    if (outdated && first.alive && !first.stopping) first.crash('it is replaced by the newest version')
    this.#keepUp()
    void this.#resumeAll()
  }

  #keepUp(): void {
    for (const process of this.#world.plan.processes) this.#boot(process)
    this.#world.scheduler.after(TICK_MS, () => {
      if (!this.closing) this.#keepUp()
    })
  }

  #boot(plan: ProcessPlan): void {
    const world = this.#world
    if (this.boots.get(plan.name)?.alive === true) return
    const life = (this.#lives.get(plan.name) ?? 0) + 1
    this.#lives.set(plan.name, life)
    const { upgradeAtMs } = world.plan
    const upgraded = upgradeAtMs !== null && (world.now >= upgradeAtMs || world.phase === 'liveness')
    const boot = new Boot(world, this.#ledger, this.#sinks, plan, life, upgraded)
    this.boots.set(plan.name, boot)
    if (upgraded && this.usable.some(({ newVersion }) => !newVersion)) world.count('mixedVersions')
    world.note(boot.name, upgraded ? '*boots in the newer version' : '*boots')
    void boot.start()
  }

  #tick(): void {
    const world = this.#world
    world.scheduler.after(TICK_MS, () => {
      if (world.phase !== 'safety') return
      this.#disturb()
      this.#operate()
      this.#restartDead()
      this.#tick()
    })
  }

  /** Rates are per millisecond; a tick is the time in which it may happen once. */
  #happens(fault: Fault): boolean {
    const { nemesis, plan, phase } = this.#world
    if (phase !== 'safety' || !nemesis.chance(plan.faults[fault] * TICK_MS)) return false
    this.#world.count(fault)
    return true
  }

  /** By chance of its own, so that histories without this fault are as they were before there was such a fault. */
  #happensApart(fault: 'tune' | 'backfill'): boolean {
    const rate = this.#world.plan.faults[fault]
    if (rate === 0 || !this.#acts.chance(rate * TICK_MS)) return false
    this.#world.count(fault)
    return true
  }

  #disturb(): void {
    const world = this.#world
    const { nemesis, plan } = world
    const { laneLeaseMs, hotLeaseMs } = plan.settings
    const awake = this.usable.filter(({ pausedUntil }) => pausedUntil <= world.now)
    const victim = awake.length === 0 ? null : nemesis.pick(awake)
    if (victim !== null && this.#happens('crash')) victim.crash('somebody pulled the plug')
    else if (victim !== null && this.#happens('pause')) {
      const longest = Math.max(laneLeaseMs, hotLeaseMs) * 2
      victim.pause(Math.min(nemesis.between(10, longest), Math.max(0, plan.safetyMs - world.now)))
    } else if (victim !== null && this.#happens('deploy')) void victim.stop()
    if (this.#happens('databaseDown')) {
      const durationMs = nemesis.between(100, 2 * laneLeaseMs)
      world.note('database', `*is away for ${Math.round(durationMs)} ms`)
      world.databaseDownUntil = world.now + durationMs
    }
    if (this.#happens('clockStep')) {
      const before = world.databaseOffsetMs
      const most = MOST_CLOCK_STEP_MS
      world.databaseOffsetMs = plan.clockGoesBack
        ? nemesis.between(-most, most)
        : before + nemesis.between(0, most)
      world.note('database', `*sets its clock to ${Math.round(world.databaseOffsetMs)} ms off`)
    }
    if (this.#happens('sinkOutage'))
      this.#sinks.beginOutage(nemesis.pick(plan.destinations).name, nemesis.between(50, 4_000))
  }

  #restartDead(): void {
    const { nemesis, plan, now } = this.#world
    for (const process of plan.processes) {
      const boot = this.boots.get(process.name)
      if (boot !== undefined && !boot.alive && nemesis.chance(0.1)) this.#boot(process)
      // A rolling deploy of the newer version, one process after the other.
      const outdated = plan.upgradeAtMs !== null && now >= plan.upgradeAtMs && boot?.newVersion === false
      if (outdated && boot.ready && !boot.stopping && boot.alive && nemesis.chance(0.05)) void boot.stop()
    }
  }

  // ----------------------------------------------------------------------------------------- operators

  #operate(): void {
    const { nemesis, plan } = this.#world
    const desk = this.usable.find(({ plan: { role } }) => role === 'worker')
    if (desk === undefined) return
    const target = { destination: nemesis.pick(plan.destinations).name, limit: nemesis.whole(1, 5) }
    const { operator } = desk.outbox
    if (this.#happens('redrive')) {
      // Somebody who looks first: where something is dead, if anywhere.
      const destination = this.#pickDead()?.destination ?? target.destination
      this.#act(desk, 'redrive', () => operator.redrive({ ...target, destination }))
    }
    if (this.#happens('replay')) this.#act(desk, 'replay', () => operator.replay(target))
    if (this.#happens('discard')) this.#act(desk, 'discard', () => operator.discard({ ...target, limit: 1 }))
    if (this.#happens('edit')) this.#edit(desk)
    if (this.#happens('operatorPause')) {
      this.#act(desk, 'pause', () => operator.pause(target.destination))
      this.#world.scheduler.after(nemesis.between(100, 3_000), () =>
        this.#act(desk, 'resume', () => operator.resume(target.destination)),
      )
    }
    if (this.#happensApart('tune')) this.#tune(desk)
    if (this.#happensApart('backfill')) this.#backfill(desk)
    if (this.#happens('cleanup')) {
      const before = new Date(this.#wallOf(desk) - nemesis.between(0, 5_000))
      this.#act(desk, 'cleanup', () => operator.cleanup({ before, limit: 50 }))
    }
  }

  /** Somebody corrects what was refused for good. */
  #edit(desk: Boot): void {
    const dead = this.#pickDead()
    if (dead === undefined) return
    const n = numberOf(this.#world.database.events.get(dead.eventId)?.record.data ?? '')
    this.#act(desk, 'edit', () => desk.outbox.operator.edit(dead.id, { payload: { n, edited: true } }))
  }

  #tune(desk: Boot): void {
    const acts = this.#acts
    const settings = acts.pick([
      { concurrency: acts.pick([1, 3, MOST_TUNED.concurrency, null]) },
      { batchSize: acts.pick([1, 2, null]) },
      { pollBatchSize: acts.pick([1, 3, 100, null]) },
      { pollIntervalMs: acts.pick([10, 200, MOST_TUNED.pollIntervalMs, null]) },
      { concurrency: null, batchSize: null, pollBatchSize: null, pollIntervalMs: null },
    ])
    const { name } = acts.pick(this.#world.plan.destinations)
    this.#act(desk, `tune ${JSON.stringify(settings)} of ${name}`, () =>
      desk.outbox.operator.tune(name, settings),
    )
  }

  /** Somebody who looks first: a destination that is younger than something, if there is one. */
  #backfill(desk: Boot): void {
    const acts = this.#acts
    const younger = [...this.#world.database.registry.values()].filter(({ patternsFrom }) =>
      patternsFrom.some((from) => from > 0n),
    )
    const some: readonly { readonly name: string }[] =
      younger.length > 0 ? younger : this.#world.plan.destinations
    const { name } = acts.pick(some)
    const options = {
      since: new Date(acts.chance(0.5) ? 0 : this.#wallOf(desk) - acts.between(0, 10_000)),
      ratePerSecond: acts.pick([5, 100, 10_000]),
      limit: acts.pick([3, 1_000]),
    }
    this.#act(desk, `backfill of ${name}`, () => desk.outbox.operator.backfill(name, options))
  }

  #pickDead(): DeliveryRow | undefined {
    const { database, nemesis } = this.#world
    const dead = [...database.deliveries.values()].filter(({ status }) => status === 'dead')
    return dead.length === 0 ? undefined : nemesis.pick(dead)
  }

  #wallOf(boot: Boot): number {
    return EPOCH_MS + this.#world.now + boot.plan.skewMs
  }

  #act(desk: Boot, what: string, act: () => Promise<unknown>): void {
    if (!desk.alive) return
    this.#world.note('operator', `*asks for ${what} through ${desk.name}`)
    const asked = { desk }
    this.#asked.add(asked)
    operatorsDesk
      .run(true, act)
      .then(
        (result) => this.#world.note('operator', `${what}: ${JSON.stringify(result)}`),
        (error: unknown) => this.#world.note('operator', `${what} failed: ${String(error)}`),
      )
      .finally(() => this.#asked.delete(asked))
  }

  /** What an operator paused stays paused until an operator resumes it, so somebody does. */
  async #resumeAll(): Promise<void> {
    const { database, scheduler } = this.#world
    while (!this.closing) {
      await scheduler.sleep(200)
      // A pause that was asked for before may arrive only now.
      const paused = [...database.registry.values()].filter((entry) => entry.paused)
      const desk = this.usable.find(({ plan: { role } }) => role === 'worker')
      for (const { name } of paused) this.#resume(desk, name)
    }
  }

  #resume(desk: Boot | undefined, name: string): void {
    if (desk !== undefined) this.#act(desk, 'resume', () => desk.outbox.operator.resume(name))
  }
}
