/** `npm run fuzz`: values of all kinds against everything that takes values; HELP says what can be asked. */
import { HIGHEST_SEED, numberOption, type OptionValues, runCommand, UsageError } from '../scripts/usage.ts'
import { propertiesOf } from './properties/index.ts'
import { type Counts, checkProperty } from './property.ts'

const HELP = `npm run fuzz -- [options]

  --runs N     values per property, 1 to 10,000,000 (default 2,000); those that go to a database get a part of them
  --seed S     which values, 0 to 4,294,967,295 (default: another one every time; a failure prints it)
  --only TEXT  only properties whose name contains it
  --json       one JSON object as the last line
  --help       this text

Each value is either accepted, and then what comes out is what went in, or refused with an error of Posthaste's that has
a stable code and a message. Nothing else may happen: no other error, no rejection that nobody hears, no hang, no change
of a shared prototype. SQLite is always tried; PostgreSQL, MySQL and MariaDB where POSTHASTE_TEST_…_URL names them.

  npm run fuzz -- --runs 100000 --only payloads
  npm run fuzz -- --seed 7

Exit code 0: every property holds. 1: one does not; its seed and the smallest value that shows it are printed. 2: wrong use.
`

const SPEC = {
  runs: { type: 'string', default: '2000' },
  seed: { type: 'string' },
  only: { type: 'string', default: '' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const say = (text: string): void => void process.stdout.write(`${text}\n`)

const row = (...[name, ...cells]: readonly (string | number)[]): string =>
  `${String(name).padEnd(28)}${cells.map((cell) => String(cell).padStart(11)).join('')}`

const run = async (values: OptionValues<typeof SPEC>): Promise<number> => {
  const runs = numberOption('runs', values.runs, 1, 10_000_000)
  const seed =
    values.seed === undefined
      ? Math.floor(Math.random() * HIGHEST_SEED)
      : numberOption('seed', values.seed, 0, HIGHEST_SEED)
  const chosen = propertiesOf(process.env).filter(({ name }) => name.includes(values.only))
  if (chosen.length === 0) throw new UsageError(`--only: no property is called like "${values.only}"`)
  say(`seed ${seed}`)
  say(row('property', 'runs', 'accepted', 'refused', 'seconds'))
  const counts: Counts[] = []
  for (const property of chosen) {
    const one = await checkProperty(property, { runs, seed })
    counts.push(one)
    say(row(one.property, one.runs, one.accepted, one.refused, one.seconds))
    if (one.failure !== null) say(`  FAILED: ${one.failure}`)
  }
  const failed = counts.filter(({ failure }) => failure !== null).length
  say(failed === 0 ? 'Every property holds.' : `${failed} of ${counts.length} properties do not hold.`)
  if (values.json) say(JSON.stringify({ seed, failed, properties: counts }))
  return failed === 0 ? 0 : 1
}

process.exitCode = await runCommand('fuzz', HELP, SPEC, run)
