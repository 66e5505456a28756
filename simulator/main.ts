/**
 * npm run simulate -- --seeds N [--from S] [--seed S] [--defect NAME | list] [--json] [--trace]
 *
 * Exit code 1 when a seed violates an invariant. With a planted defect it is the other way round only in words: a
 * seed that shows the defect is what is looked for, and the exit code is 1 as well, because something is broken.
 */
import { parseArgs } from 'node:util'
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
}

const readArguments = (): Arguments => {
  const { values } = parseArgs({
    options: {
      seeds: { type: 'string' },
      from: { type: 'string' },
      seed: { type: 'string' },
      defect: { type: 'string' },
      json: { type: 'boolean', default: false },
      trace: { type: 'boolean', default: false },
    },
  })
  const whole = (name: string, text: string | undefined, fallback: number): number => {
    const value = text === undefined ? fallback : Number(text)
    if (Number.isSafeInteger(value) && value >= 0) return value
    throw new Error(`--${name} must be a whole number, not ${text}`)
  }
  return {
    seeds: whole('seeds', values.seeds, DEFAULT_SEEDS),
    from: whole('from', values.from, 1),
    seed: values.seed === undefined ? null : whole('seed', values.seed, 0),
    defect: values.defect ?? null,
    json: values.json,
    trace: values.trace,
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

const runMany = async ({ seeds, from, defect, json }: Arguments): Promise<number> => {
  const startedAt = performance.now()
  const numbers = Array.from({ length: seeds }, (_, i) => from + i)
  const all = await runBatch({ seeds: numbers, defect, first: defect !== null }, progressBar(seeds))
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
    return caught ? 1 : 2
  }
  const totals = {
    events: sum(all.map(({ events }) => events)),
    deliveries: sum(all.map(({ deliveries }) => deliveries)),
    duplicates: sum(all.map(({ duplicates }) => duplicates)),
  }
  say(
    `${seeds} seeds from ${from}: ${failing.length} violations, ${totals.events} events, ${totals.deliveries} deliveries, ` +
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

const main = async (): Promise<number> => {
  const given = readArguments()
  if (given.defect === 'list') {
    for (const { name, says } of DEFECTS) say(`${name.padEnd(24)} ${says}`)
    return 0
  }
  if (given.defect !== null && findDefect(given.defect) === undefined) {
    say(`there is no defect "${given.defect}"; --defect list shows them all`)
    return 2
  }
  return given.seed === null ? await runMany(given) : await replay(given.seed, given)
}

process.exitCode = await main()
