/** What a run left behind, as series over time: from its samples, and lag from the logs of producers and sink. */
import {
  FILES,
  type IntentLine,
  plainId,
  readLog,
  readLogs,
  type SampleLine,
  type SinkLine,
  type TruthLine,
} from '../chaos/logs.ts'
import type { Point, Tolerance } from './flat.ts'

export interface Series {
  readonly name: string
  readonly group: Group
  readonly points: readonly Point[]
}

export type Group = 'rss' | 'handles' | 'files' | 'tables' | 'indexes' | 'rows' | 'lag'

const MB = 1_048_576

/** How much more the last third may have than the middle one. Docs state these. */
export const TOLERANCES: Readonly<Record<Group, Tolerance>> = {
  rss: { share: 0.1, plus: 8 * MB },
  handles: { share: 0.1, plus: 10 },
  files: { share: 0.1, plus: 4 },
  tables: { share: 0.2, plus: MB / 4 },
  indexes: { share: 0.2, plus: MB / 4 },
  rows: { share: 0.3, plus: 1_000 },
  lag: { share: 0.5, plus: 250 },
}

export interface Run {
  /** Of the first sample, in ms since 1970. */
  readonly beganAt: number
  readonly samples: number
  readonly series: readonly Series[]
  /** From right before COMMIT to the arrival, of all that nothing but the machine and faults delayed. */
  readonly lagMs: { readonly p50: number; readonly p99: number; readonly max: number }
}

class SeriesBuilder {
  readonly #series = new Map<
    string,
    { readonly name: string; readonly group: Group; readonly points: Point[] }
  >()

  add(group: Group, name: string, point: Point): void {
    const id = `${group} ${name}`
    const series = this.#series.get(id) ?? { name, group, points: [] }
    series.points.push(point)
    this.#series.set(id, series)
  }

  get all(): readonly Series[] {
    return [...this.#series.values()]
  }
}

const addSample = (to: SeriesBuilder, seconds: number, sample: SampleLine): void => {
  for (const [slot, { rssBytes, handles, files }] of Object.entries(sample.processes)) {
    to.add('rss', slot, [seconds, rssBytes])
    to.add('handles', slot, [seconds, handles])
    if (files !== null) to.add('files', slot, [seconds, files])
  }
  for (const [table, { rows, bytes }] of Object.entries(sample.tables)) {
    to.add('tables', table, [seconds, bytes])
    to.add('rows', table, [seconds, rows])
  }
  for (const [index, bytes] of Object.entries(sample.indexes)) to.add('indexes', index, [seconds, bytes])
  to.add('lag', 'oldest', [seconds, sample.oldestMs])
}

interface Arrival {
  readonly at: number
  readonly ms: number
}

const commitTimes = async (folder: string): Promise<ReadonlyMap<string, number>> => {
  const times = new Map<string, number>()
  for await (const [, { boot, n, what, at }] of readLogs<IntentLine>(folder, 'intents'))
    if (what === 'commit') times.set(`${boot} ${n}`, at)
  return times
}

/** First arrivals of what was to be sent at once and was not refused. */
const arrivalsOf = async (folder: string): Promise<Arrival[]> => {
  const committedAt = await commitTimes(folder)
  const waiting = new Map<string, number>()
  for await (const { id, body } of readLog<TruthLine>(folder, FILES.truth)) {
    const at = committedAt.get(`${body.boot} ${body.n}`)
    if (at === undefined || body.delayMs > 0 || body.failures > 0) continue
    for (const destination of body.destinations) waiting.set(`${plainId(id)} ${destination}`, at)
  }
  const arrivals: Arrival[] = []
  for await (const { at, destination, sends } of readLog<SinkLine>(folder, FILES.sink)) {
    for (const [event] of sends) {
      const id = `${plainId(event)} ${destination}`
      const from = waiting.get(id)
      if (from !== undefined) arrivals.push({ at, ms: Math.max(0, at - from) })
      waiting.delete(id)
    }
  }
  return arrivals
}

const quantile = (sorted: readonly number[], q: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? 0

const quantilesOf = (values: readonly number[]): Run['lagMs'] => {
  const sorted = values.toSorted((a, b) => a - b)
  return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99), max: sorted.at(-1) ?? 0 }
}

const addLag = (
  to: SeriesBuilder,
  arrivals: readonly Arrival[],
  beganAt: number,
  endedAt: number,
  stepMs: number,
): void => {
  const windows = new Map<number, number[]>()
  for (const { at, ms } of arrivals) {
    if (at < beganAt || at > endedAt) continue
    const window = Math.floor((at - beganAt) / stepMs)
    const inside = windows.get(window)
    if (inside === undefined) windows.set(window, [ms])
    else inside.push(ms)
  }
  for (const [window, inside] of [...windows].toSorted(([a], [b]) => a - b)) {
    const seconds = ((window + 1) * stepMs) / 1_000
    const { p50, p99 } = quantilesOf(inside)
    to.add('lag', 'p50', [seconds, p50])
    to.add('lag', 'p99', [seconds, p99])
  }
}

export const readRun = async (folder: string, sampleMs: number): Promise<Run> => {
  const builder = new SeriesBuilder()
  let samples = 0
  let beganAt = 0
  let endedAt = 0
  for await (const sample of readLog<SampleLine>(folder, FILES.samples)) {
    if (samples === 0) beganAt = sample.at - sampleMs
    endedAt = sample.at
    samples += 1
    addSample(builder, (sample.at - beganAt) / 1_000, sample)
  }
  const arrivals = await arrivalsOf(folder)
  addLag(builder, arrivals, beganAt, endedAt, sampleMs)
  return { beganAt, samples, series: builder.all, lagMs: quantilesOf(arrivals.map(({ ms }) => ms)) }
}
