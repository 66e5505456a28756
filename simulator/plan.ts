/**
 * What a seed decides before anything happens: processes, destinations, settings, and which faults exist at all.
 * Each seed switches some kinds of fault off, because a fault that is always there hides what happens without it.
 */
import type { DeadHeadPolicy, KeyOrder } from '../src/core/options.ts'
import { Random } from './random.ts'

export const FAULTS = [
  'crash',
  'pause',
  'requestLost',
  'replyLost',
  'slowCall',
  'databaseDown',
  'commitUnknown',
  'deadlock',
  'longTransaction',
  'rollback',
  'savepoint',
  'sinkRefuses',
  'sinkBuries',
  'sinkAsksForTime',
  'sinkOutage',
  'sinkLosesReply',
  'sinkStalls',
  'sinkDuplicates',
  'poison',
  'deploy',
  'skew',
  'clockStep',
  'redrive',
  'replay',
  'discard',
  'edit',
  'operatorPause',
  'cleanup',
  'tune',
  'backfill',
] as const

export type Fault = (typeof FAULTS)[number]

export interface DestinationPlan {
  readonly name: string
  readonly kind: 'publisher' | 'ordered' | 'listener'
  readonly patterns: readonly string[]
  /** What processes of the newer version declare in addition. */
  readonly laterPatterns: readonly string[]
  readonly maxBatch: number
  readonly concurrency: number
  readonly maxAttempts: number
  readonly deadHead: DeadHeadPolicy
  readonly timeoutMs: number
  readonly ratePerSecond: number | null
  /** Only processes of the newer version declare it. */
  readonly late: boolean
}

export interface ProcessPlan {
  readonly name: string
  /** A writer never starts: it does not know the routes. */
  readonly role: 'worker' | 'writer'
  /** Null: everything it declares. */
  readonly serve: readonly string[] | null
  readonly skewMs: number
}

export interface Settings {
  readonly laneLeaseMs: number
  readonly hotLeaseMs: number
  readonly pollIntervalMs: number
  readonly pollIdleMaxMs: number
  readonly pollBatchSize: number
  readonly sweepIntervalMs: number
  readonly skipRecentMs: number
  readonly hotQueueCapacity: number
  readonly coldQueueCapacity: number
  readonly hardDeadlineMs: number
  readonly drainMs: number
  readonly retryBaseMs: number
  readonly retryMaxMs: number
  readonly breakerMaxMs: number
  /** Writers of a key wait for each other, and can deadlock. */
  readonly keyOrder: KeyOrder
}

export interface Plan {
  readonly seed: number
  /** Another course of events under the same plan; 0 unless a story is being made shorter. */
  readonly luck: number
  /** Probability or rate of each fault; 0 when this seed does without it. */
  readonly faults: Readonly<Record<Fault, number>>
  readonly destinations: readonly DestinationPlan[]
  readonly processes: readonly ProcessPlan[]
  readonly settings: Settings
  readonly events: number
  readonly keys: readonly string[]
  readonly safetyMs: number
  /** When the first process of the newer version comes up; null when there is none. */
  readonly upgradeAtMs: number | null
  readonly latencyMs: readonly [number, number]
  /** Some payloads are large, so that bytes run out before counts do. */
  readonly largePayloads: boolean
  /** The database's clock jumps not only ahead. */
  readonly clockGoesBack: boolean
  /** The database carries messages between processes. */
  readonly wakes: boolean
}

/** Highest probability or rate per kind; a seed draws below it. */
const STRONGEST: Readonly<Record<Fault, number>> = {
  crash: 1 / 4_000,
  pause: 1 / 5_000,
  requestLost: 0.1,
  replyLost: 0.1,
  slowCall: 0.08,
  databaseDown: 1 / 12_000,
  commitUnknown: 0.2,
  deadlock: 0.05,
  longTransaction: 0.3,
  rollback: 0.25,
  savepoint: 0.3,
  sinkRefuses: 0.3,
  sinkBuries: 0.1,
  sinkAsksForTime: 0.1,
  sinkOutage: 1 / 6_000,
  sinkLosesReply: 0.15,
  sinkStalls: 0.08,
  sinkDuplicates: 0.15,
  poison: 0.06,
  deploy: 1 / 10_000,
  skew: 1,
  clockStep: 1 / 8_000,
  redrive: 1 / 2_500,
  replay: 1 / 8_000,
  discard: 1 / 8_000,
  edit: 1 / 5_000,
  operatorPause: 1 / 10_000,
  cleanup: 1 / 6_000,
  tune: 1 / 4_000,
  backfill: 1 / 4_000,
}

/** In fewer histories, so that those in which a seed shows something else are not all changed. */
const RARER: ReadonlySet<Fault> = new Set(['tune', 'backfill'])

/** Owners change all the time, under a clock that is set again and again. */
const STORM: Partial<Record<Fault, number>> = { crash: 1 / 1_500, pause: 1 / 1_500, clockStep: 1 / 2_000 }
/** How many of the seeds that are not calm. */
const STORMY = 0.1

/** A message that kills whoever sends it is given up on after several takeovers, and each of them waits for a lease. */
const POISONED_LEASES = 12

/** What an operator may ask for, at most. */
export const MOST_TUNED = { concurrency: 6, pollIntervalMs: 500 } as const

/** Batches that may be under way at once, whatever an operator said. */
export const mostAtOnce = (
  { faults }: Plan,
  { concurrency }: Pick<DestinationPlan, 'concurrency'>,
): number => (faults.tune > 0 ? Math.max(concurrency, MOST_TUNED.concurrency) : concurrency)

export const createPlan = (seed: number): Plan => {
  const random = new Random(seed, 'plan')
  const calm = random.chance(0.12)
  const faults = {} as Record<Fault, number>
  for (const fault of FAULTS) {
    // A stream of its own, so that a new kind of fault leaves the others as they are.
    const own = new Random(seed, `fault ${fault}`)
    const on = !calm && own.chance(RARER.has(fault) ? 0.25 : 0.5)
    faults[fault] = on ? STRONGEST[fault] * own.between(0.2, 1) : 0
  }
  const stormy = !calm && new Random(seed, 'storm').chance(STORMY)
  if (stormy) Object.assign(faults, STORM)
  const destinations = planDestinations(random)
  const processes = planProcesses(random, destinations, { skewed: faults.skew > 0, stormy })
  const settings = { ...planSettings(random), ...(stormy ? { laneLeaseMs: 1_000, hotLeaseMs: 1_000 } : {}) }
  return {
    seed,
    luck: 0,
    faults,
    destinations,
    processes,
    settings,
    events: random.whole(30, 80),
    keys: ['red', 'green', 'blue', 'gold'].slice(0, random.whole(1, 4)),
    safetyMs: Math.max(
      random.between(8_000, 25_000),
      faults.poison > 0 ? POISONED_LEASES * settings.laneLeaseMs : 0,
    ),
    upgradeAtMs: random.chance(0.4) ? random.between(1_000, 8_000) : null,
    latencyMs: random.pick([[0.2, 3] as const, [1, 30] as const, [5, 120] as const]),
    largePayloads: random.chance(0.05),
    wakes: random.chance(0.4),
    clockGoesBack: random.chance(0.4) || stormy,
  }
}

const planSettings = (random: Random): Settings => ({
  laneLeaseMs: random.pick([1_000, 1_500, 3_000, 6_000]),
  hotLeaseMs: random.pick([1_000, 2_000, 5_000]),
  pollIntervalMs: random.pick([20, 100, 500]),
  pollIdleMaxMs: random.pick([500, 1_000, 2_000]),
  pollBatchSize: random.pick([2, 5, 50, 500]),
  sweepIntervalMs: random.pick([20, 100]),
  skipRecentMs: random.chance(0.1) ? 200 : 0,
  hotQueueCapacity: random.pick([2, 10, 1_000]),
  coldQueueCapacity: random.pick([2, 10, 1_000]),
  hardDeadlineMs: random.pick([2_000, 5_000]),
  drainMs: random.pick([0, 300, 2_000]),
  retryBaseMs: random.pick([20, 200]),
  retryMaxMs: random.pick([500, 1_500]),
  breakerMaxMs: random.pick([400, 1_500]),
  keyOrder: random.chance(0.25) ? 'locked' : 'visible',
})

const planDestinations = (random: Random): DestinationPlan[] => {
  const make = (
    name: string,
    kind: DestinationPlan['kind'],
    patterns: readonly string[],
    late = false,
  ): DestinationPlan => ({
    name,
    kind,
    patterns,
    laterPatterns: name === 'hooks' ? ['order.paid'] : [],
    maxBatch: kind === 'listener' ? 1 : random.pick([1, 3, 10]),
    concurrency: random.pick([1, 2, 4]),
    maxAttempts: random.whole(2, 5),
    deadHead: random.pick(['skip', 'skip', 'block', 'park'] as const),
    timeoutMs: random.chance(0.4) ? random.pick([300, 1_500]) : 0,
    ratePerSecond: random.chance(0.1) ? random.between(20, 200) : null,
    late,
  })
  const all = [
    make('kafka', 'ordered', ['order.*']),
    make('hooks', 'publisher', ['order.placed', 'user.*']),
    make('mailer', 'listener', ['order.placed']),
    make('local', 'listener', ['user.*', 'order.paid']),
  ].filter((_, i) => i === 0 || random.chance(0.7))
  return [...all, make('audit', random.pick(['publisher', 'ordered', 'listener'] as const), ['*'], true)]
}

const planProcesses = (
  random: Random,
  destinations: readonly DestinationPlan[],
  { skewed, stormy }: { readonly skewed: boolean; readonly stormy: boolean },
): ProcessPlan[] => {
  const count = random.whole(2, 4) + (stormy ? 2 : 0)
  return Array.from({ length: count }, (_, i) => {
    const writer = i > 0 && i === count - 1 && random.chance(0.3)
    const some = i > 1 && random.chance(0.3) ? [random.pick(destinations).name] : null
    return {
      name: `p${i + 1}`,
      role: writer ? 'writer' : 'worker',
      serve: some,
      skewMs: skewed ? random.between(-20_000, 20_000) : 0,
    }
  })
}

/** Without any of these nothing is ever in doubt, so a single duplicate is a violation. */
export const isUnambiguous = ({ faults, upgradeAtMs }: Plan): boolean =>
  upgradeAtMs === null &&
  (
    [
      'crash',
      'pause',
      'requestLost',
      'replyLost',
      'slowCall',
      'databaseDown',
      'sinkLosesReply',
      'sinkStalls',
      'poison',
      'deploy',
      'clockStep',
    ] as const
  ).every((fault) => faults[fault] === 0)
