/** One seed from beginning to end. */
import { checkEnd, countDuplicates, findWaiting } from './check-end.ts'
import type { Defect } from './defects/index.ts'
import { Ledger } from './ledger.ts'
import { MOST_CLOCK_STEP_MS, Nemesis } from './nemesis.ts'
import { createPlan, type Plan } from './plan.ts'
import { Producers } from './producers.ts'
import { Sinks } from './sinks.ts'
import { formatLine } from './trace.ts'
import { setTraps } from './trap.ts'
import { type Violation, World } from './world.ts'

export interface RunResult {
  readonly seed: number
  readonly hash: string
  readonly violation: (Violation & { readonly story: readonly string[] }) | null
  readonly events: number
  readonly deliveries: number
  readonly duplicates: number
  readonly steps: number
  /** How often each fault struck and each path was taken. */
  readonly counts: ReadonlyMap<string, number>
  /** Every line of the trace; a function, because nobody wants them for a seed that is well. */
  readonly lines: () => readonly string[]
}

/** Steps after which a run goes round in circles. */
const MOST_STEPS = 400_000
/** The reconciler looks this often at most; what it has to add may wait for it. */
const RECONCILER_MS = 40_000

export const runSeed = (seed: number, defect: Defect | null = null): Promise<RunResult> =>
  runPlan(createPlan(seed), defect)

export const runPlan = async (plan: Plan, defect: Defect | null): Promise<RunResult> => {
  const world = new World(plan, defect)
  const removeTraps = setTraps()
  const unhandled = (reason: unknown): void =>
    world.violate('unhandled', `a rejection that nobody handled: ${describe(reason)}`)
  process.on('unhandledRejection', unhandled)
  try {
    return await simulate(world)
  } finally {
    process.removeListener('unhandledRejection', unhandled)
    removeTraps()
  }
}

const describe = (reason: unknown): string =>
  reason instanceof Error ? (reason.stack ?? reason.message) : String(reason)

const simulate = async (world: World): Promise<RunResult> => {
  const { plan, scheduler } = world
  const ledger = new Ledger(world)
  const sinks = new Sinks(world, ledger)
  const nemesis = new Nemesis(world, ledger, sinks)
  const producers = new Producers(world)
  nemesis.startAll()
  produce(world, nemesis, producers)
  const over = (): boolean => world.violation !== null || scheduler.steps > MOST_STEPS
  await scheduler.runUntil(plan.safetyMs, over)
  world.phase = 'liveness'
  world.databaseDownUntil = 0
  if (!over()) {
    world.note('checker', '*faults stop')
    nemesis.recover()
    await settle(world, ledger, () => producers.busy || nemesis.busy, over)
  }
  if (!over()) await stopAll(world, nemesis, over)
  if (scheduler.steps > MOST_STEPS) world.violate('9 liveness', 'the processes go round in circles')
  if (world.violation === null) checkEnd(world, ledger)
  const { violation, trace } = world
  return {
    seed: plan.seed,
    hash: trace.hash,
    violation: violation === null ? null : { ...violation, story: trace.story(new Set(violation.about)) },
    events: producers.published,
    ...countDuplicates(world),
    steps: scheduler.steps,
    counts: world.counts,
    lines: () => trace.lines.map(formatLine),
  }
}

/** Transactions at random times, through whichever process is up. */
const produce = (world: World, nemesis: Nemesis, producers: Producers): void => {
  const { plan, scheduler, workload } = world
  const everyMs = (plan.safetyMs * 0.9) / (plan.events / 1.6)
  const next = (): void => {
    if (world.phase !== 'safety' || producers.published >= plan.events) return
    const { usable } = nemesis
    if (usable.length > 0) void producers.transact(workload.pick(usable))
    // In bursts, because overlapping transactions are what goes wrong.
    scheduler.after(
      workload.chance(0.4) ? workload.between(0, 5) : everyMs * workload.between(0.2, 2.6),
      next,
    )
  }
  scheduler.after(everyMs, next)
}

/** Until everything that is due has arrived, or it should have long ago. */
const settle = async (
  world: World,
  ledger: Ledger,
  busy: () => boolean,
  over: () => boolean,
): Promise<void> => {
  const { scheduler } = world
  const patience = patienceMs(world.plan)
  let limit = scheduler.now + patience
  const lastLimit = limit + RECONCILER_MS + patience
  for (;;) {
    await scheduler.runUntil(scheduler.now + 250, over)
    if (over()) return
    const waiting = findWaiting(world, ledger)
    if (waiting.length === 0 && !busy()) break
    // What the reconciler adds late has its own time from then on.
    const missed = waiting.every(({ why }) => why === 'has no delivery')
    if (missed) limit = Math.min(scheduler.now + patience, lastLimit)
    if (scheduler.now > limit) return
  }
  // A claim that was forgotten or a read that was too old shows itself only now.
  await scheduler.runUntil(scheduler.now + world.plan.settings.hotLeaseMs + 500, over)
}

/** Lease, back-off and poll, several times over where one may follow the other, and the longest delayed event. */
const patienceMs = ({ settings, latencyMs, faults }: Plan): number => {
  const { laneLeaseMs, hotLeaseMs, retryMaxMs, breakerMaxMs, pollIdleMaxMs, hardDeadlineMs } = settings
  const leases = 3 * laneLeaseMs + 2 * hotLeaseMs
  return (
    leases +
    8 * retryMaxMs +
    2 * breakerMaxMs +
    2 * pollIdleMaxMs +
    2 * hardDeadlineMs +
    // A clock that was set back makes everything due later by as much.
    (faults.clockStep > 0 ? 2 * MOST_CLOCK_STEP_MS : 0) +
    5_000 +
    200 * latencyMs[1]
  )
}

const stopAll = async (world: World, nemesis: Nemesis, over: () => boolean): Promise<void> => {
  const { scheduler, plan } = world
  const boots = [...nemesis.boots.values()].filter(({ alive, stopping }) => alive && !stopping)
  let stopped = 0
  nemesis.closing = true
  for (const boot of boots) void boot.stop().then(() => (stopped += 1))
  // A call that was slow before the faults stopped may still be on its way, and stopping waits for it.
  const slowMs = plan.faults.slowCall > 0 ? 3 * plan.settings.laneLeaseMs : 0
  const limitMs = plan.settings.drainMs + 3_000 + 30 * plan.latencyMs[1] + slowMs
  await scheduler.runUntil(scheduler.now + limitMs, () => over() || stopped === boots.length)
  if (stopped < boots.length && !over())
    world.violate('8 bounds', `a process did not stop within ${limitMs} ms`)
}
