/** `npm run mutants`: plants defects in the code and shows who noticed them; HELP says what can be asked. */
import { serviceOf } from '../scripts/services/catalogue.ts'
import { serviceUrls } from '../scripts/services/index.ts'
import { numberOption, type OptionValues, runCommand, UsageError } from '../scripts/usage.ts'
import { MUTANTS } from './catalogue/index.ts'
import { needsServers } from './hunters.ts'
import type { Hunter, Mutant } from './mutant.ts'
import { type Hunt, Workshop } from './workshop.ts'

const HELP = `npm run mutants -- [options]

  --only NAME,…  these alone
  --list         names them all, and what each breaks
  --jobs N       so many at once, 1 to 8 (default 1)
  --json         one JSON object as the last line
  --help         this text

Each defect is planted in a copy of the repository, and its hunters (tests, or the simulator) look for it until one
of them notices. Before that they all must find the copy without a defect to be well.

Exit code 0: all were noticed. 1: some were not, or the code is not well without them. 2: wrong use.
`

interface Arguments {
  readonly mutants: readonly Mutant[]
  readonly list: boolean
  readonly jobs: number
  readonly json: boolean
}

interface Result extends Hunt {
  readonly name: string
  readonly file: string
}

const SPEC = {
  only: { type: 'string' },
  list: { type: 'boolean', default: false },
  jobs: { type: 'string', default: '1' },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const SERVERS = ['postgres', 'postgres-new', 'pgbouncer', 'mariadb', 'mysql'] as const

const chosen = (only: string | undefined): readonly Mutant[] => {
  if (only === undefined) return MUTANTS
  const names = new Set(only.split(',').map((name) => name.trim()))
  for (const name of names) {
    if (MUTANTS.some((mutant) => mutant.name === name)) continue
    throw new UsageError(`there is no mutant "${name}"; --list shows them all`)
  }
  return MUTANTS.filter(({ name }) => names.has(name))
}

const say = (text: string): void => void process.stdout.write(`${text}\n`)
const tell = (text: string): void => void process.stderr.write(`${text}\n`)

const huntersOf = (mutants: readonly Mutant[]): readonly Hunter[] => [
  ...new Set(mutants.flatMap(({ hunters }) => hunters)),
]

/** The addresses of the servers, where a hunter needs them. */
const environment = async (hunters: readonly Hunter[]): Promise<NodeJS.ProcessEnv> => {
  if (!hunters.some(needsServers)) return process.env
  const urls = await serviceUrls(SERVERS)
  return {
    ...process.env,
    ...Object.fromEntries(SERVERS.map((name) => [serviceOf(name).variable, urls[name]])),
  }
}

/** Works off a list with all workshops, in order, and says how far it is. */
const spread = async <T>(
  workshops: readonly Workshop[],
  items: readonly T[],
  work: (workshop: Workshop, item: T) => Promise<string>,
): Promise<void> => {
  const startedAt = performance.now()
  let next = 0
  let done = 0
  const go = async (workshop: Workshop): Promise<void> => {
    while (next < items.length) {
      const item = items[next++] as T
      const text = await work(workshop, item)
      done += 1
      const left = ((performance.now() - startedAt) / done) * (items.length - done)
      tell(`[${done}/${items.length}, about ${Math.ceil(left / 60_000)} min left] ${text}`)
    }
  }
  await Promise.all(workshops.map(go))
}

const isWell = async (workshops: readonly Workshop[], hunters: readonly Hunter[]): Promise<boolean> => {
  let well = true
  await spread(workshops, hunters, async (workshop, hunter) => {
    const { passed, output } = await workshop.run(hunter)
    if (passed) return `${hunter}: well`
    well = false
    return `${hunter} fails without a defect:\n${output}`
  })
  return well
}

const huntAll = async (
  workshops: readonly Workshop[],
  mutants: readonly Mutant[],
): Promise<readonly Result[]> => {
  const results = new Map<string, Result>()
  await spread(workshops, mutants, async (workshop, mutant) => {
    const { name, file } = mutant
    const hunt = await workshop.hunt(mutant)
    results.set(name, { name, file, ...hunt })
    return `${name}: ${hunt.caughtBy ?? 'NOBODY NOTICED'}, ${hunt.seconds} s`
  })
  return mutants.flatMap(({ name }) => results.get(name) ?? [])
}

const count = (results: readonly Result[]): Record<string, number> => {
  const byHunter: Record<string, number> = {}
  for (const { caughtBy } of results) {
    if (caughtBy !== null) byHunter[caughtBy] = (byHunter[caughtBy] ?? 0) + 1
  }
  return byHunter
}

const show = (results: readonly Result[]): void => {
  const width = Math.max(...results.map(({ name }) => name.length))
  say('')
  for (const { name, caughtBy, seconds } of results) {
    say(`${name.padEnd(width)}  ${`${seconds.toFixed(1)} s`.padStart(8)}  ${caughtBy ?? 'NOBODY NOTICED'}`)
  }
}

const hunt = async ({ mutants, jobs, json }: Arguments): Promise<number> => {
  const hunters = huntersOf(mutants)
  const env = await environment(hunters)
  const workshops: Workshop[] = []
  try {
    for (let i = 0; i < jobs; i += 1) workshops.push(await Workshop.open(env))
    if (!(await isWell(workshops, hunters))) {
      tell('The code is not well as it is, so nothing can be said about defects in it.')
      return 1
    }
    const results = await huntAll(workshops, mutants)
    const survived = results.filter(({ caughtBy }) => caughtBy === null).map(({ name }) => name)
    const caught = results.length - survived.length
    show(results)
    say(`\n${caught} of ${results.length} defects were noticed.`)
    for (const name of survived) say(`${name}: a test is missing`)
    if (json) {
      // By the words of other tools for the same, too: those who compare look for them.
      const common = { total: results.length, killed: caught, survivors: survived }
      const ours = { mutants: results.length, caught, survived, byHunter: count(results), results }
      say(JSON.stringify({ ...common, ...ours }))
    }
    return survived.length === 0 ? 0 : 1
  } finally {
    for (const workshop of workshops) workshop.close()
  }
}

const run = async ({ only, list, jobs, json }: OptionValues<typeof SPEC>): Promise<number> => {
  const given = { jobs: numberOption('jobs', jobs, 1, 8), mutants: chosen(only), list, json }
  if (!given.list) return await hunt(given)
  const width = Math.max(...given.mutants.map(({ name }) => name.length))
  for (const { name, breaks } of given.mutants) say(`${name.padEnd(width)}  ${breaks}`)
  if (json) say(JSON.stringify({ total: given.mutants.length, mutants: given.mutants }))
  return 0
}

// Hunters are processes of their own, which an interruption would leave behind.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))

process.exitCode = await runCommand('mutants', HELP, SPEC, run)
