/** Many seeds: one after the other, or shared out to as many helpers as there are cores. */
import { fork } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { findDefect } from './defects/index.ts'
import { runSeed } from './run.ts'

/** What is kept of one seed. */
export interface SeedSummary {
  readonly seed: number
  readonly hash: string
  readonly invariant: string | null
  readonly message: string
  readonly story: readonly string[]
  readonly events: number
  readonly deliveries: number
  readonly duplicates: number
  readonly counts: Readonly<Record<string, number>>
}

export interface Batch {
  readonly seeds: readonly number[]
  readonly defect: string | null
  /** Stop after the first violation. */
  readonly first: boolean
}

/** Below this many seeds the helpers cost more than they save. */
const WORTH_HELPERS = 40

export const summarise = async (seed: number, defect: string | null): Promise<SeedSummary> => {
  const result = await runSeed(seed, defect === null ? null : (findDefect(defect) ?? null))
  const { violation } = result
  return {
    seed,
    hash: result.hash,
    invariant: violation?.invariant ?? null,
    message: violation?.message ?? '',
    story: violation?.story ?? [],
    events: result.events,
    deliveries: result.deliveries,
    duplicates: result.duplicates,
    counts: Object.fromEntries(result.counts),
  }
}

export const runBatch = async (
  { seeds, defect, first }: Batch,
  progress: (done: number) => void,
): Promise<SeedSummary[]> => {
  const helpers = Math.min(4, availableParallelism())
  const done: SeedSummary[] = []
  const note = (summary: SeedSummary): boolean => {
    done.push(summary)
    progress(done.length)
    return !(first && summary.invariant !== null)
  }
  if (seeds.length < WORTH_HELPERS || helpers < 2) {
    for (const seed of seeds) if (!note(await summarise(seed, defect))) break
  } else await runHelpers(seeds, defect, helpers, note)
  return done.sort((a, b) => a.seed - b.seed)
}

/** Each helper asks for the next seed when it is done with one, so that a slow seed holds up nobody. */
const runHelpers = async (
  seeds: readonly number[],
  defect: string | null,
  helpers: number,
  note: (summary: SeedSummary) => boolean,
): Promise<void> => {
  let next = 0
  let going = true
  const runHelper = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const helper = fork(fileURLToPath(new URL('./helper.ts', import.meta.url)), {
        execArgv: ['--import', 'tsx'],
      })
      const feed = (): void => {
        const seed = going ? seeds[next] : undefined
        next += 1
        helper.send(seed === undefined ? { seed: null } : { seed, defect })
      }
      helper.on('message', (message) => {
        going = note(message as SeedSummary) && going
        feed()
      })
      helper.on('error', reject)
      helper.on('exit', (code) => {
        if (code === 0) resolve()
        else reject(new Error(`a helper ended with exit code ${code}`))
      })
      feed()
    })
  await Promise.all(Array.from({ length: helpers }, runHelper))
}
