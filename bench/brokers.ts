/** `npm run bench:brokers`: the rate through Posthaste beside that of the client libraries alone. Prepares and starts it. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { installNodes, nodeOfMajor } from '../scripts/packaged-nodes.ts'
import { heading, ROOT, run } from '../scripts/run.ts'
import { serviceUrls } from '../scripts/services/index.ts'
import type { Settings } from './brokers/main.ts'
import type { BrokersResult } from './brokers/result.ts'
import { brokersTables } from './brokers-report.ts'
import { tableOf } from './show.ts'

/** By carrier. */
const SERVICES = {
  kafka: 'kafka',
  rabbitmq: 'rabbitmq',
  redis: 'redis',
  nats: 'nats',
  mqtt: 'mosquitto',
} as const
type Name = keyof typeof SERVICES
const NAMES = Object.keys(SERVICES) as Name[]

const HELP = `npm run bench:brokers -- [--json FILE] [options]

Drains a backlog in PostgreSQL to each broker, and sends the same messages to it from memory with the client library
alone, in turns. Servers are started when they do not run. About ten minutes on two cores.

  --json FILE      where the figures go; npm run bench:report -- FILE puts them into docs/performance.md
  --only LIST      some of ${NAMES.join(',')}
  --rounds N       how often each is repeated; default 3
  --events N       of a backlog; default 30,000
  --quick          small numbers, to see that everything works; the figures say nothing
  --help           this text

With --json the last line on stdout is one JSON object: {file, targets: [{name, target, measured, met}]};
with --quick no target is judged, and there are none.

Exit code: 0 all targets are met (or --quick), 1 one is not, or nothing was measured, 2 the command was not understood.
`

const NODE_MAJOR = '24'
const FULL = { rounds: 3, events: 30_000 }
const QUICK = { rounds: 1, events: 3_000 }

class UsageError extends Error {}

const whole = (option: string, text: string | undefined, otherwise: number): number => {
  if (text === undefined) return otherwise
  const value = Number(text.replaceAll('_', ''))
  if (Number.isSafeInteger(value) && value >= 1) return value
  throw new UsageError(`--${option} must be a whole number from 1 on, not "${text}"`)
}

const namesOf = (text: string | undefined): readonly Name[] => {
  if (text === undefined) return NAMES
  return text.split(',').map((given) => {
    const name = NAMES.find((each) => each === given.trim())
    if (name === undefined)
      throw new UsageError(`--only knows ${NAMES.join(', ')}, but not "${given.trim()}"`)
    return name
  })
}

const parse = () => {
  const options = {
    json: { type: 'string' },
    only: { type: 'string' },
    rounds: { type: 'string' },
    events: { type: 'string' },
    quick: { type: 'boolean' },
    help: { type: 'boolean' },
  } as const
  try {
    return parseArgs({ options, strict: true }).values
  } catch (error) {
    throw new UsageError((error as Error).message.split('. ')[0])
  }
}

const urlsOf = async (names: readonly Name[]): Promise<Record<string, string>> => {
  const urls = await serviceUrls(names.map((name) => SERVICES[name]))
  return Object.fromEntries(names.map((name) => [name, urls[SERVICES[name]]]))
}

const main = async (): Promise<number> => {
  const values = parse()
  if (values.help === true) {
    process.stdout.write(HELP)
    return 0
  }
  const scratch = mkdtempSync(join(tmpdir(), 'posthaste-bench-'))
  process.once('exit', () => rmSync(scratch, { recursive: true, force: true }))
  const file = values.json === undefined ? join(scratch, 'figures.json') : resolve(values.json)
  if (!existsSync(dirname(file))) throw new UsageError(`there is no folder ${dirname(file)}`)
  const base = values.quick === true ? QUICK : FULL
  const names = namesOf(values.only)
  const node = nodeOfMajor(installNodes(), NODE_MAJOR)
  heading('Servers')
  const settings: Settings = {
    command: ['npm run bench:brokers --', ...process.argv.slice(2)].join(' '),
    postgres: (await serviceUrls(['postgres-new']))['postgres-new'],
    urls: await urlsOf(names),
    rounds: whole('rounds', values.rounds, base.rounds),
    events: whole('events', values.events, base.events),
  }
  heading(`Measuring under Node ${node.version}`)
  rmSync(file, { force: true })
  const code = run(node.path, [join(ROOT, 'bench', 'brokers', 'main.ts'), JSON.stringify(settings), file])
  if (code !== 0 || !existsSync(file)) return 1
  const result = JSON.parse(readFileSync(file, 'utf8')) as BrokersResult
  heading('Figures')
  const isQuick = values.quick === true
  for (const { head, rows } of brokersTables(result, !isQuick)) console.log(`${tableOf([head, ...rows])}\n`)
  for (const failure of result.failures) console.log(`FAILED  ${failure}`)
  if (result.failures.length > 0) return 1
  const all = Object.entries(result.brokers).map(([name, { ratio, met }]) => ({
    name,
    target: `at least ${result.target} of the client alone`,
    measured: ratio,
    met,
  }))
  const targets = isQuick ? [] : all
  if (values.json !== undefined) console.log(JSON.stringify({ file: values.json, targets }))
  return targets.every(({ met }) => met) ? 0 : 1
}

try {
  process.exitCode = await main()
} catch (error) {
  console.error(error instanceof UsageError ? `${error.message}\n\n${HELP}` : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
