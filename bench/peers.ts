/** `npm run bench`: Posthaste beside its peers on one PostgreSQL. Prepares everything, then bench/peers/ measures. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import type { Socket } from 'node:net'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { installNodes, nodeOfMajor } from '../scripts/packaged-nodes.ts'
import { heading, mustRun, ROOT, run, TYPESCRIPT } from '../scripts/run.ts'
import { serviceUrls } from '../scripts/services/index.ts'
import { machineText } from './machine.ts'
import { SECTIONS, type Section, type Settings, type Sizes } from './peers/context.ts'
import type { BenchResult } from './peers/result.ts'
import { tableOf } from './show.ts'
import { tablesOf } from './tables.ts'
import { verdictOf } from './verdict.ts'

const HELP = `npm run bench -- --json FILE [options]

Measures Posthaste beside graphile-worker, pg-boss and a hand-written table on one PostgreSQL: all under Node 24,
each with its best documented settings, in turns. About three quarters of an hour on two cores; less with --only or --quick.

  --json FILE      where the figures go
  --only LIST      some of ${SECTIONS.join(',')}
  --rounds N       how often each is repeated; default 3
  --events N       backlog of the drain; default 150,000
  --growth LIST    numbers of finished rows; default 0,1000000,5000000
  --away MS        the PostgreSQL is further away: every round trip takes that long, an even number from 2 to 100 ms; default: it is not
  --url URL        a PostgreSQL on which databases may be created; default: one is started
  --quick          small numbers, to see that everything works; the figures say nothing
  --help           this text

The last line on stdout is then one JSON object: {file, targets: [{name, target, measured, met}]}; with --quick
no target is judged, and there are none.

Exit code: 0 all targets are met (or --quick), 1 one is not, or nothing was measured, 2 the command was not understood.
`

const FOLDER = join(ROOT, 'bench', 'peers')
const NODE_MAJOR = '24'

const FULL: Sizes = {
  rounds: 3,
  events: 150_000,
  warmUpSeconds: 5,
  warmUpEvents: 30_000,
  latencySeconds: 8,
  publishSeconds: 6,
  growthEvents: 100_000,
  growth: [0, 1_000_000, 5_000_000],
  pending: 1_000_000,
}

const QUICK: Sizes = {
  rounds: 1,
  events: 3_000,
  warmUpSeconds: 1,
  warmUpEvents: 1_000,
  latencySeconds: 1,
  publishSeconds: 1,
  growthEvents: 3_000,
  growth: [0, 10_000],
  pending: 10_000,
}

class UsageError extends Error {}

const whole = (option: string, text: string | undefined, otherwise: number, lowest = 1): number => {
  if (text === undefined) return otherwise
  const value = Number(text.replaceAll('_', ''))
  if (Number.isSafeInteger(value) && value >= lowest) return value
  throw new UsageError(`--${option} must be a whole number from ${lowest} on, not "${text}"`)
}

const sectionsOf = (text: string | undefined): readonly Section[] => {
  if (text === undefined) return SECTIONS
  return text.split(',').map((name) => {
    const section = SECTIONS.find((each) => each === name.trim())
    if (section === undefined)
      throw new UsageError(`--only knows ${SECTIONS.join(', ')}, but not "${name.trim()}"`)
    return section
  })
}

const growthOf = (text: string | undefined, otherwise: readonly number[]): readonly number[] => {
  if (text === undefined) return otherwise
  const levels = text.split(',').map((each) => whole('growth', each.trim(), 0, 0))
  return [...new Set([0, ...levels])].sort((a, b) => a - b)
}

const parse = (args: readonly string[]) => {
  const options = {
    json: { type: 'string' },
    only: { type: 'string' },
    rounds: { type: 'string' },
    events: { type: 'string' },
    growth: { type: 'string' },
    away: { type: 'string' },
    url: { type: 'string' },
    quick: { type: 'boolean' },
    help: { type: 'boolean' },
  } as const
  try {
    return parseArgs({ args: [...args], options, strict: true }).values
  } catch (error) {
    throw new UsageError((error as Error).message.split('. ')[0])
  }
}

const installPeers = (): void => {
  heading('Peers (bench/peers)')
  const versions = (path: string): unknown => {
    const { packages } = JSON.parse(readFileSync(path, 'utf8')) as {
      packages: Record<string, { version: string }>
    }
    return Object.entries(packages).flatMap(([name, { version }]) => (name ? [`${name} ${version}`] : []))
  }
  const installed = join(FOLDER, 'node_modules', '.package-lock.json')
  const locked = join(FOLDER, 'package-lock.json')
  const current = existsSync(installed) && String(versions(installed)) === String(versions(locked))
  // npm would complain that pg-boss is not for the Node that installs it; it runs under another.
  if (!current) mustRun('npm', ['ci', '--prefix', FOLDER, '--ignore-scripts', '--loglevel=error'], FOLDER)
  // The built package by its own name, as an application has it.
  const link = join(FOLDER, 'node_modules', 'posthaste')
  rmSync(link, { force: true, recursive: true })
  symlinkSync(ROOT, link, 'dir')
  mustRun('tsdown', ['--log-level', 'warn'])
}

const OTHERS = ['mariadb', 'mysql'] as const

const startAway = async (url: string, ms: number): Promise<[url: string, process: ChildProcess]> => {
  const args = [...TYPESCRIPT, join(ROOT, 'bench', 'away.ts'), url, String(ms)]
  const away = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const [said] = (await Promise.race([
    once(away.stdout, 'data'),
    once(away, 'exit').then(() => {
      throw new Error('what puts the server further away did not start')
    }),
  ])) as [Buffer]
  // It ends with us, and does not keep us.
  away.unref()
  for (const stream of [away.stdin, away.stdout]) (stream as Socket).unref()
  return [String(said).trim(), away]
}

/** A server that cannot be had here is said so in the file; the rest is measured all the same. */
const otherServers = async (): Promise<Settings['others']> => {
  const found = OTHERS.map(async (name): Promise<[string, Settings['others'][string]]> => {
    try {
      return [name, { url: (await serviceUrls([name]))[name] }]
    } catch (error) {
      return [name, { skipped: (error as Error).message }]
    }
  })
  return Object.fromEntries(await Promise.all(found))
}

const main = async (): Promise<number> => {
  const values = parse(process.argv.slice(2))
  if (values.help === true) {
    process.stdout.write(HELP)
    return 0
  }
  if (values.json === undefined) throw new UsageError('--json FILE is missing: where should the figures go?')
  const file = resolve(values.json)
  if (!existsSync(dirname(file))) throw new UsageError(`there is no folder ${dirname(file)}`)
  const base = values.quick === true ? QUICK : FULL
  const sizes: Sizes = {
    ...base,
    rounds: whole('rounds', values.rounds, base.rounds),
    events: whole('events', values.events, base.events),
    growth: growthOf(values.growth, base.growth),
  }
  const sections = sectionsOf(values.only)
  const awayMs = values.away === undefined ? 0 : whole('away', values.away, 0)
  // Either direction takes half of it, and timers count in whole milliseconds.
  if (awayMs % 2 !== 0 || awayMs > 100)
    throw new UsageError(`--away must be an even number from 2 to 100, not "${values.away}"`)
  if (awayMs > 0 && sections.includes('others'))
    throw new UsageError('--away is about PostgreSQL alone: name sections with --only, without "others"')
  const node = nodeOfMajor(installNodes(), NODE_MAJOR)
  installPeers()
  heading('PostgreSQL')
  const near = values.url ?? (await serviceUrls(['postgres-new']))['postgres-new']
  const [url, away] = awayMs === 0 ? [near, null] : await startAway(near, awayMs)
  const others = sections.includes('others') ? await otherServers() : {}
  const shown = process.argv
    .slice(2)
    .filter((arg, index, all) => arg !== '--url' && all[index - 1] !== '--url')
  const settings: Settings = {
    url,
    others,
    command: `npm run bench -- ${shown.join(' ')}`,
    sections,
    sizes,
    awayMs,
  }
  heading(`Measuring under Node ${node.version}`)
  rmSync(file, { force: true })
  // In that folder, because graphile-worker looks for a configuration from where it is started upwards.
  const code = run(node.path, [join(FOLDER, 'main.ts'), JSON.stringify(settings), file], FOLDER)
  away?.kill()
  if (code !== 0 || !existsSync(file)) return 1
  const result = JSON.parse(readFileSync(file, 'utf8')) as BenchResult
  heading('Figures')
  for (const table of tablesOf(result)) console.log(`\n${tableOf([table.head, ...table.rows])}`)
  console.log(`\n${machineText(result.machine, 'server and clients')}`)
  heading('Targets')
  const { text, targets, exitCode } = verdictOf(result.targets, values.quick === true)
  console.log([text, ...result.failures.map((failure) => `FAILED  ${failure}`)].join('\n'))
  if (result.postgres.fsync !== 'on') console.log('\nfsync is off: nothing here was durable.')
  console.log(JSON.stringify({ file: values.json, targets }))
  return exitCode
}

try {
  process.exitCode = await main()
} catch (error) {
  console.error(error instanceof UsageError ? `${error.message}\n\n${HELP}` : error)
  process.exitCode = error instanceof UsageError ? 2 : 1
}
