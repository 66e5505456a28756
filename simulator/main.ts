/** `npm run simulate`: many simulated histories, or one of them once more; HELP says what can be asked. */
import { HIGHEST_SEED, numberOption, type OptionValues, runCommand, UsageError } from '../scripts/usage.ts'
import { runBatch, type SeedSummary } from './batch.ts'
import { PATHS } from './coverage.ts'
import { applyCut, applyCuts } from './cut.ts'
import { DEFECTS, type Defect, findDefect } from './defects/index.ts'
import { createPlan, FAULTS } from './plan.ts'
import { type RunResult, runPlan } from './run.ts'
import { shrink } from './shrink.ts'

const DEFAULT_SEEDS = 200
/** Stories of further seeds are most likely about the same. */
const MOST_TOLD = 3

interface Arguments {
  readonly seeds: number
  readonly from: number
  readonly seed: number | null
  readonly defect: string | null
  readonly json: boolean
  readonly trace: boolean
  readonly first: boolean
  readonly cuts: readonly string[]
}

const HELP = `npm run simulate -- [options]

  --seeds N      how many seeds, 1 to 1,000,000 (default ${DEFAULT_SEEDS})
  --from S       the first of them (default 1)
  --seed S       this one alone, twice, to prove that it is the same both times
  --trace        with --seed: every single step
  --cut WORDS    with --seed: with less in it, as the story of a violation says; cut.ts has the words
  --defect NAME  with a defect planted in the core, until a seed shows it; --defect list names them all
  --first        no further than the first seed that is not well
  --json         one JSON object as the last line
  --help         this text

Exit code 0: every seed is well. 1: a seed violates an invariant, be it because of the planted defect.
2: wrong use. 3: none of the seeds of --seeds shows the planted defect.
`

const SPEC = {
  seeds: { type: 'string', default: String(DEFAULT_SEEDS) },
  from: { type: 'string', default: '1' },
  seed: { type: 'string' },
  defect: { type: 'string' },
  json: { type: 'boolean', default: false },
  trace: { type: 'boolean', default: false },
  first: { type: 'boolean', default: false },
  cut: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const argumentsOf = (values: OptionValues<typeof SPEC>): Arguments => {
  const { defect = null } = values
  if (defect !== null && defect !== 'list' && findDefect(defect) === undefined) {
    throw new UsageError(`there is no defect "${defect}"; --defect list shows them all`)
  }
  for (const option of ['trace', 'cut'] as const) {
    if (values[option] && values.seed === undefined) throw new UsageError(`--${option} needs --seed`)
  }
  const cuts = values.cut?.split(',') ?? []
  for (const cut of cuts) {
    if (applyCut(createPlan(0), cut) === undefined) throw new UsageError(`there is no cut "${cut}"`)
  }
  return {
    seeds: numberOption('seeds', values.seeds, 1, 1_000_000),
    from: numberOption('from', values.from, 0, HIGHEST_SEED),
    seed: values.seed === undefined ? null : numberOption('seed', values.seed, 0, HIGHEST_SEED),
    defect,
    json: values.json,
    trace: values.trace,
    first: values.first,
    cuts,
  }
}

const say = (text: string): void => void process.stdout.write(`${text}\n`)

/** Tells the smallest story found, and returns it. */
const tell = async ({ seed, invariant, message }: SeedSummary, defect: string | null): Promise<Told> => {
  say(`\nseed ${seed} violates ${invariant}: ${message}`)
  const smallest = await shrink(seed, plantedOf(defect))
  const { cuts = [], result } = smallest ?? {}
  const story = result?.violation?.story ?? []
  say(`\n${cuts.length === 0 ? 'it cannot be made smaller' : `it takes no more than ${describe(result)}`}:\n`)
  for (const line of story) say(line)
  const replay = `npm run simulate -- --seed ${seed}${defect === null ? '' : ` --defect ${defect}`}`
  say(`\nreplay it with: ${replay}${cuts.length === 0 ? '' : ` --cut ${cuts.join()}`}`)
  if (cuts.length > 0) say(`    as it was: ${replay}`)
  return { cuts, story }
}

interface Told {
  readonly cuts: readonly string[]
  readonly story: readonly string[]
}

const describe = (result: RunResult | undefined): string =>
  `${result?.events} events: ${result?.violation?.message}`

const plantedOf = (defect: string | null): Defect | null =>
  defect === null ? null : (findDefect(defect) ?? null)

/** Drawn only where somebody is looking. */
const progressBar = (total: number): ((done: number) => void) => {
  if (!process.stderr.isTTY) return () => undefined
  return (done) => {
    const width = 40
    const full = Math.round((width * done) / total)
    const end = done === total ? '\n' : ''
    process.stderr.write(`\r[${'#'.repeat(full)}${'.'.repeat(width - full)}] ${done}/${total} seeds${end}`)
  }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)

/** How often each fault struck and each path was taken; 0 where none did. */
const sortCounts = (all: readonly Readonly<Record<string, number>>[]) => {
  const add = (names: readonly string[]): Record<string, number> =>
    Object.fromEntries(names.map((name) => [name, sum(all.map((counts) => counts[name] ?? 0))]))
  return { faults: add(FAULTS), paths: add(PATHS) }
}

/** One hash for all seeds, in their order. */
const foldHashes = (all: readonly SeedSummary[]): string => {
  let hash = 0x811c9dc5
  for (const { hash: each } of all) {
    for (let i = 0; i < each.length; i += 1) hash = Math.imul(hash ^ each.charCodeAt(i), 0x01000193)
  }
  return (hash >>> 0).toString(16).padStart(8, '0')
}

/** One seed, twice, to prove that it is the same both times. */
const replay = async (seed: number, { defect, json, trace, cuts }: Arguments): Promise<number> => {
  const startedAt = performance.now()
  const plan = applyCuts(createPlan(seed), cuts)
  if (plan === undefined) throw new UsageError('these cuts leave nothing')
  const first = await runPlan(plan, plantedOf(defect))
  const second = await runPlan(plan, plantedOf(defect))
  const same = first.hash === second.hash
  if (trace) for (const line of first.lines()) say(line)
  const { violation } = first
  if (violation !== null) {
    say(`\nseed ${seed} violates ${violation.invariant}: ${violation.message}\n`)
    for (const line of violation.story) say(line)
  }
  say(
    `\nseed ${seed}: ${first.events} events, ${first.deliveries} deliveries, ${first.duplicates} duplicates`,
  )
  say(same ? `hash ${first.hash}, twice the same` : `hash ${first.hash}, but ${second.hash} the second time`)
  if (json) {
    const failing =
      violation === null ? [] : [{ seed, invariant: violation.invariant, story: violation.story }]
    const { events, deliveries, duplicates, hash } = first
    const ms = Math.round(performance.now() - startedAt)
    const { faults, paths } = sortCounts([Object.fromEntries(first.counts)])
    const violations = failing.length
    say(
      JSON.stringify({
        seeds: 1,
        violations,
        from: seed,
        events,
        deliveries,
        duplicates,
        faults,
        paths,
        hash,
        same,
        ms,
        failing,
      }),
    )
  }
  return violation === null && same ? 0 : 1
}

const runMany = async ({ seeds, from, defect, json, first }: Arguments): Promise<number> => {
  const startedAt = performance.now()
  const numbers = Array.from({ length: seeds }, (_, i) => from + i)
  const all = await runBatch({ seeds: numbers, defect, first: first || defect !== null }, progressBar(seeds))
  const failing = all.filter(({ invariant }) => invariant !== null)
  const [worst] = failing
  const told = new Map<number, Told>()
  for (const summary of failing.slice(0, defect === null ? MOST_TOLD : 1)) {
    told.set(summary.seed, await tell(summary, defect))
  }
  const ms = Math.round(performance.now() - startedAt)
  if (defect !== null) {
    const caught = worst !== undefined
    say(
      caught
        ? `\nthe defect ${defect} shows in seed ${worst.seed}`
        : `\nthe defect ${defect} went unnoticed in ${seeds} seeds`,
    )
    const found = caught ? { seed: worst.seed, invariant: worst.invariant } : { seed: null, invariant: null }
    if (json) say(JSON.stringify({ defect, caught, ...found, ms }))
    // A defect that nobody notices is the worse news, and must not look like it.
    return caught ? 1 : 3
  }
  const totals = {
    events: sum(all.map(({ events }) => events)),
    deliveries: sum(all.map(({ deliveries }) => deliveries)),
    duplicates: sum(all.map(({ duplicates }) => duplicates)),
  }
  say(
    `${all.length} seeds from ${from}: ${failing.length} violations, ${totals.events} events, ${totals.deliveries} deliveries, ` +
      `${totals.duplicates} duplicates that faults explain, ${(ms / 1_000).toFixed(1)} s`,
  )
  if (json) {
    const list = failing.map(({ seed, invariant, story }) => ({
      seed,
      invariant,
      story,
      ...told.get(seed),
    }))
    const { faults, paths } = sortCounts(all.map(({ counts }) => counts))
    say(
      JSON.stringify({
        seeds,
        violations: failing.length,
        from,
        ...totals,
        faults,
        paths,
        hash: foldHashes(all),
        ms,
        failing: list,
      }),
    )
  }
  return failing.length === 0 ? 0 : 1
}

const run = async (values: OptionValues<typeof SPEC>): Promise<number> => {
  const given = argumentsOf(values)
  if (given.defect === 'list') {
    for (const { name, says } of DEFECTS) say(`${name.padEnd(24)} ${says}`)
    return 0
  }
  return given.seed === null ? await runMany(given) : await replay(given.seed, given)
}

process.exitCode = await runCommand('simulate', HELP, SPEC, run)
