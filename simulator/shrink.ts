/**
 * From a history that violates an invariant to the smallest one found that still violates the same: with fewer
 * events, faults, processes and destinations. It is as repeatable as a run: how long it takes is counted in runs.
 */
import { applyCut, applyCuts, isFault } from './cut.ts'
import type { Defect } from './defects/index.ts'
import { createPlan, FAULTS, type Plan } from './plan.ts'
import { type RunResult, runPlan } from './run.ts'

const MOST_RUNS = 150
/** What is left out changes when everything else happens; a few other courses are worth a look. */
const LUCKS = [0, 1, 2, 3] as const

export interface Smallest {
  readonly cuts: readonly string[]
  readonly result: RunResult
}

export const shrink = async (seed: number, defect: Defect | null): Promise<Smallest | null> => {
  const whole = createPlan(seed)
  const first = await runPlan(whole, defect)
  if (first.violation === null) return null
  const { invariant } = first.violation
  let plan = whole
  let best: Smallest = { cuts: [], result: first }
  let runs = 0

  /** True if the same goes wrong with this left out too. */
  const tryCuts = async (cuts: readonly string[]): Promise<boolean> => {
    const less = applyCuts(plan, cuts)
    if (less === undefined) return false
    for (const luck of LUCKS) {
      if (runs >= MOST_RUNS) return false
      runs += 1
      const lucky = { ...less, luck }
      const result = await runPlan(lucky, defect)
      if (result.violation?.invariant !== invariant) continue
      plan = lucky
      best = { cuts: [...best.cuts, ...cuts, `luck=${luck}`], result }
      return true
    }
    return false
  }

  /** All at once if that does it, else by halves. */
  const tryHalves = async (cuts: readonly string[]): Promise<void> => {
    if (cuts.length === 0 || (await tryCuts(cuts)) || cuts.length === 1) return
    const middle = cuts.length >> 1
    await tryHalves(cuts.slice(0, middle))
    await tryHalves(cuts.slice(middle))
  }

  const trySmaller = async (what: string, sizes: readonly number[], size: number): Promise<void> => {
    for (const less of sizes) if (less < size && (await tryCuts([`${what}=${less}`]))) return
  }

  await trySmaller('events', [2, 4, 8, 16, 32], plan.events)
  await trySmaller('processes', [1, 2, 3], plan.processes.length)
  await tryHalves(leavable(plan))
  await trySmaller('keys', [1], plan.keys.length)
  await trySmaller('events', [1, 2, 3, 4, 6, 10], plan.events)
  await trySmaller('ms', [1_000, 2_000, 4_000, 8_000], plan.safetyMs)
  return { ...best, cuts: tidy(whole, best.cuts) }
}

/** Everything that a plan can do without as a whole. */
const leavable = ({ faults, upgradeAtMs, destinations }: Plan): string[] => [
  ...FAULTS.filter((fault) => faults[fault] > 0),
  ...(upgradeAtMs === null ? [] : ['upgrade']),
  ...destinations.map(({ name }) => `no-${name}`),
]

/** Of each number the last, and nothing that leaves the plan as it is. */
const tidy = (plan: Plan, cuts: readonly string[]): string[] => {
  const last = [...new Map(cuts.map((cut) => [cut.split('=')[0], cut])).values()]
  const calm = FAULTS.every((fault) => plan.faults[fault] === 0 || last.includes(fault))
  const words = calm ? ['calm', ...last.filter((cut) => !isFault(cut))] : last
  return words.filter((cut) => JSON.stringify(applyCut(plan, cut)) !== JSON.stringify(plan))
}
