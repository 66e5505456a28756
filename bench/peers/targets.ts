/** Targets are ratios within one run: absolute figures say more about the machine. */
import type { BenchResult, Figure, Target } from './result.ts'

const MEBIBYTES = 256

const grouped = (number: number | string): string => Number(number).toLocaleString('en-US')

const medianOf = (figure: Figure | undefined): number | null => figure?.median ?? null

const ratioTarget = (
  name: string,
  mine: number | null,
  theirs: number | null,
  wanted: { readonly atLeast: number } | { readonly atMost: number },
): Target => {
  const target = 'atLeast' in wanted ? `at least ${wanted.atLeast} ×` : `at most ${wanted.atMost} ×`
  if (mine === null || theirs === null || theirs === 0)
    return { name, target, measured: 'not measured', met: false }
  const ratio = mine / theirs
  const met = 'atLeast' in wanted ? ratio >= wanted.atLeast : ratio <= wanted.atMost
  return { name, target, measured: `${ratio.toFixed(ratio < 0.1 ? 3 : 2)} ×`, met }
}

const best = (values: readonly (number | null)[], pick: (...values: number[]) => number): number | null => {
  const known = values.filter((value) => value !== null)
  return known.length > 0 ? pick(...known) : null
}

type Measured = Omit<BenchResult, 'targets'>

const drainTargets = ({ drain }: Measured): Target[] => {
  if (drain === undefined) return []
  const peers = [medianOf(drain.graphile), medianOf(drain.pgboss)]
  return [
    ratioTarget('drain, to the better peer', medianOf(drain.posthaste), best(peers, Math.max), {
      atLeast: 3,
    }),
  ]
}

const latencyTargets = ({ latency }: Measured): Target[] => {
  if (latency === undefined) return []
  const wanted = { unkeyed: 0.25, keyed: 0.5 } as const
  return (['unkeyed', 'keyed'] as const).flatMap((kind) =>
    Object.keys(latency.posthaste?.[kind] ?? {}).map((rate) => {
      const p50 = (name: 'posthaste' | 'graphile' | 'pgboss') => medianOf(latency[name]?.[kind][rate]?.p50)
      const peer = best([p50('graphile'), p50('pgboss')], Math.min)
      const name = `latency p50, ${kind}, at ${grouped(rate)} /s, to the better peer`
      return ratioTarget(name, p50('posthaste'), peer, { atMost: wanted[kind] })
    }),
  )
}

const publishTargets = ({ publish }: Measured): Target[] => {
  if (publish === undefined) return []
  const [mine, insert] = [medianOf(publish.posthaste), medianOf(publish.handmade)]
  return [ratioTarget('publish, to the INSERT written by hand', mine, insert, { atLeast: 0.95 })]
}

const growthTargets = ({ growth }: Measured): Target[] => {
  const mine = growth?.posthaste
  if (mine === undefined) return []
  const without = medianOf(mine.finished['0'])
  const levels = Object.keys(mine.finished).filter((rows) => rows !== '0')
  return [
    ...levels.map((rows) =>
      ratioTarget(
        `drain beside ${grouped(rows)} finished rows, to none`,
        medianOf(mine.finished[rows]),
        without,
        {
          atLeast: 0.8,
        },
      ),
    ),
    ratioTarget('drain under a pinned horizon, to none', medianOf(mine.pinned), without, { atLeast: 0.8 }),
  ]
}

const memoryTargets = ({ memory }: Measured): Target[] => {
  if (memory === undefined) return []
  const target = (name: string, peak: number | null): Target => ({
    name,
    target: `below ${MEBIBYTES} MiB`,
    measured: peak === null ? 'not measured' : `${Math.round(peak)} MiB`,
    met: peak !== null && peak < MEBIBYTES,
  })
  const name = `memory with a backlog of ${grouped(memory.backlog)}`
  return [
    target(name, medianOf(memory.posthaste)),
    target(`${name}, --max-semi-space-size=16`, medianOf(memory.limited)),
  ]
}

export const targetsOf = (measured: Measured): Target[] => [
  ...drainTargets(measured),
  ...latencyTargets(measured),
  ...publishTargets(measured),
  ...growthTargets(measured),
  ...memoryTargets(measured),
]
