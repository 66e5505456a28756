/** Everything that one run shares: time, the database, what is true, what happened and what went wrong. */
import { createMemoryDatabase, type MemoryDatabase } from '../src/stores/memory/index.ts'
import type { Path } from './coverage.ts'
import type { Defect } from './defects/index.ts'
import type { Fault, Plan } from './plan.ts'
import { Random } from './random.ts'
import { Scheduler } from './scheduler.ts'
import { Trace } from './trace.ts'
import { Truth } from './truth.ts'

/** 2025-01-01; any date will do, as long as it is always the same. */
export const EPOCH_MS = 1_735_689_600_000

export type Invariant =
  | '1 no loss'
  | '2 no ghost'
  | '3 duplicates'
  | '4 order'
  | '5 attempts'
  | '6 stale right'
  | '7 finished is final'
  | '8 bounds'
  | '9 liveness'
  | '10 cleanup'
  | '11 reachable'
  | 'unhandled'

export interface Violation {
  readonly invariant: Invariant
  readonly message: string
  readonly about: readonly number[]
}

export class World {
  readonly plan: Plan
  readonly defect: Defect | null
  readonly scheduler: Scheduler
  readonly trace = new Trace()
  readonly truth = new Truth()
  readonly database: MemoryDatabase
  /** Chance of the network and the sinks, of the nemesis, and of the workload: streams of their own. */
  readonly network: Random
  readonly nemesis: Random
  readonly workload: Random
  /** How often each fault struck and each path was taken. */
  readonly counts = new Map<Fault | Path, number>()
  phase: 'safety' | 'liveness' = 'safety'
  databaseDownUntil = 0
  /** The database has a clock of its own, which can be set. */
  databaseOffsetMs = 0
  violation: Violation | null = null

  constructor(plan: Plan, defect: Defect | null) {
    this.plan = plan
    this.defect = defect
    this.scheduler = new Scheduler(this.stream('ties'))
    this.network = this.stream('network')
    this.nemesis = this.stream('nemesis')
    this.workload = this.stream('workload')
    this.database = createMemoryDatabase({
      clock: () => EPOCH_MS + this.scheduler.now + this.databaseOffsetMs,
    })
  }

  stream(name: string): Random {
    const { seed, luck } = this.plan
    return new Random(seed, luck === 0 ? name : `${name} ${luck}`)
  }

  get now(): number {
    return this.scheduler.now
  }

  note(who: string, what: string, about?: readonly number[]): void {
    this.trace.add(this.scheduler.now, who, what, about)
  }

  /** Whether a fault that has a probability happens now. It never does after the faults have stopped. */
  strikes(fault: Fault, random: Random): boolean {
    if (this.phase !== 'safety' || !random.chance(this.plan.faults[fault])) return false
    this.count(fault)
    return true
  }

  count(what: Fault | Path, times = 1): void {
    if (times > 0) this.counts.set(what, (this.counts.get(what) ?? 0) + times)
  }

  /** The first violation counts; what follows may be its consequence. */
  violate(invariant: Invariant, message: string, about: readonly number[] = []): void {
    if (this.violation !== null) return
    this.violation = { invariant, message, about }
    this.note('checker', `*VIOLATION of ${invariant}: ${message}`, about)
  }

  latency(): number {
    const [low, high] = this.plan.latencyMs
    return this.network.between(low, high)
  }
}
