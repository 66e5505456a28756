/** `npm run simulate`: many simulated histories, or one of them once more; HELP says what can be asked. */
import { readOptions, runCommand, UsageError, wholeNumber } from '../scripts/options.ts'
import { runBatch, type SeedSummary } from './batch.ts'
import { DEFECTS, findDefect } from './defects.ts'
import { runSeed } from './run.ts'

const DEFAULT_SEEDS = 200

interface Arguments {
  readonly seeds: number
  readonly from: number
  readonly seed: number | null
  readonly defect: string | null
  readonly json: boolean
  readonly trace: boolean
  readonly first: boolean
}

const HELP = `npm run simulate -- [options]

  --seeds N      how many seeds, 1 to 1,000,000 (default ${DEFAULT_SEEDS})
  --from S       the first of them (default 1)
  --seed S       this one alone, twice, to prove that it is the same both times
  --trace        with --seed: every single step
  --defect NAME  with a defect planted in the core, until a seed shows it; --defect list names them all
  --first        no further than the first seed that is not well
  --json         one JSON object as the last line
  --help         this text

Exit code 0: every seed is well. 1: a seed violates an invariant, be it because of the planted defect.
2: wrong use. 3: none of the seeds of --seeds shows the planted defect.
`

const LAST_SEED = 4_294_967_295

const SPEC = {
  seeds: { type: 'string', default: String(DEFAULT_SEEDS) },
  from: { type: 'string', default: '1' },
  seed: { type: 'string' },
  defect: { type: 'string' },
  json: { type: 'boolean', default: false },
  trace: { type: 'boolean', default: false },
  first: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/** Null means that only the help was asked for. */
const readArguments = (): Arguments | null => {
  const values = readOptions(SPEC)
  if (values.help) return null
  const { defect = null } = values
  if (defect !== null && defect !== 'list' && findDefect(defect) === undefined) {
    throw new UsageError(`there is no defect "${defect}"; --defect list shows them all`)
  }
  if (values.trace && values.seed === undefined) throw new UsageError('--trace needs --seed')
  return {
    seeds: wholeNumber('seeds', values.seeds, 1, 1_000_000),
    from: wholeNumber('from', values.from, 0, LAST_SEED),
    seed: values.seed === undefined ? null : wholeNumber('seed', values.seed, 0, LAST_SEED),
    defect,
    json: values.json,
    trace: values.trace,
    first: values.first,
  }
}

const say = (text: string): void => void process.stdout.write(`${text}\n`)

const replayCommand = (seed: number, defect: string | null): string =>
  `npm run simulate -- --seed ${seed}${defect === null ? '' : ` --defect ${defect}`}`

const tell = (summary: SeedSummary, defect: string | null): void => {
  say(`\nseed ${summary.seed} violates ${summary.invariant}: ${summary.message}\n`)
  for (const line of summary.story) say(line)
  say(`\nreplay it with: ${replayCommand(summary.seed, defect)}`)
}

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

const addFaults = (all: readonly SeedSummary[]): Record<string, number> => {
  const faults: Record<string, number> = {}
  for (const summary of all) {
    for (const [kind, count] of Object.entries(summary.faults)) faults[kind] = (faults[kind] ?? 0) + count
  }
  return faults
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
const replay = async (seed: number, { defect, json, trace }: Arguments): Promise<number> => {
  const startedAt = performance.now()
  const planted = defect === null ? null : (findDefect(defect) ?? null)
  const first = await runSeed(seed, planted)
  const second = await runSeed(seed, planted)
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
    const faults = Object.fromEntries(first.faults)
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
  for (const summary of failing.slice(0, defect === null ? 3 : 1)) tell(summary, defect)
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
    const told = failing.map(({ seed, invariant, story }) => ({ seed, invariant, story }))
    const faults = addFaults(all)
    say(
      JSON.stringify({
        seeds,
        violations: failing.length,
        from,
        ...totals,
        faults,
        hash: foldHashes(all),
        ms,
        failing: told,
      }),
    )
  }
  return failing.length === 0 ? 0 : 1
}

const run = async (given: Arguments): Promise<number> => {
  if (given.defect === 'list') {
    for (const { name, says } of DEFECTS) say(`${name.padEnd(24)} ${says}`)
    return 0
  }
  return given.seed === null ? await runMany(given) : await replay(given.seed, given)
}

const main = async (): Promise<number> => {
  const given = readArguments()
  if (given !== null) return await run(given)
  process.stdout.write(HELP)
  return 0
}

process.exitCode = await runCommand('simulate', main)
