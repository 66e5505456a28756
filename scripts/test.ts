/**
 * `npm test`, and with --rest `npm run test:rest`. What waits for the network goes on beside what needs the processor,
 * and what comes after the tests in pairs, because each of them alone keeps one processor busy.
 */
import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { type Part, REST_FILES, SPLIT_FILES } from '../test/parts.ts'
import { heading, ROOT } from './run.ts'
import { installServices } from './services/index.ts'
import { NO_OPTIONS, runCommand } from './usage.ts'

const HELP = `Usage: npm test
       npm run test:rest

npm test: build, the tests, the examples, 500 simulated histories, the package on newer Nodes. A quarter of an hour.
npm run test:rest: what the tests leave out, because it asks the same on one more server or driver (test/parts.ts), and the
drivers of newer Nodes. Ten minutes more. Neither takes options. Of one file: npx vitest run FILE

Exit code: 0 all is well, 1 something is not, 2 the command was not understood.
`

interface Step {
  readonly name: string
  readonly command: readonly [string, ...string[]]
  readonly part?: Part
}

const script = (path: string, ...args: readonly string[]): Step['command'] => [
  'node',
  '--import',
  'tsx',
  path,
  ...args,
]

const BUILD: Step = { name: 'Build', command: ['tsdown', '--log-level', 'warn'] }
/** The first two hundred are among the tests. */
const SIMULATE: Step = {
  name: 'Simulated histories',
  command: script('simulator/main.ts', '--from', '201', '--seeds', '300'),
}
const NODES: Step = { name: 'Other Nodes', command: script('scripts/nodes.ts', 'install') }
const TESTS: Step = { name: 'Tests', command: ['vitest', 'run'], part: 'most' }
const REST: Step = {
  name: 'The rest of the tests',
  command: ['vitest', 'run', ...REST_FILES, ...SPLIT_FILES],
  part: 'rest',
}
const EXAMPLES: Step = { name: 'Examples', command: script('scripts/test-examples.ts', '--built') }
const DRIVERS: Step = { name: 'Drivers on other Nodes', command: script('scripts/nodes.ts', 'test') }
const PACKAGE: Step = { name: 'Package', command: script('scripts/test-package.ts', '--built') }

const summary: string[] = []

/** `aside`: beside others, so what it says is shown when it has ended. */
const run = async ({ name, command: [program, ...args], part }: Step, aside: boolean): Promise<boolean> => {
  const started = performance.now()
  const PATH = `${join(ROOT, 'node_modules', '.bin')}:${process.env.PATH ?? ''}`
  if (!aside) heading(name)
  const child = spawn(program, args, {
    cwd: ROOT,
    env: { ...process.env, PATH, ...(part === undefined ? {} : { POSTHASTE_TEST_PART: part }) },
    stdio: aside ? ['ignore', 'pipe', 'pipe'] : 'inherit',
  })
  const said: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (bytes: Buffer) => said.push(bytes))
  const ok = await new Promise<boolean>((resolve) => {
    child.once('error', (error) => {
      said.push(Buffer.from(`${program}: ${error.message}\n`))
      resolve(false)
    })
    child.once('close', (code) => resolve(code === 0))
  })
  if (aside) {
    heading(name)
    process.stdout.write(Buffer.concat(said))
  }
  const seconds = ((performance.now() - started) / 1000).toFixed(0)
  summary.push(`${name.padEnd(30)} ${ok ? 'ok' : 'FAILED'} ${seconds} s`)
  return ok
}

/** One after the other, until one fails. */
const inTurn = async (steps: readonly Step[]): Promise<boolean> => {
  for (const step of steps) if (!(await run(step, true))) return false
  return true
}

const beside = async (...rows: readonly (readonly Step[])[]): Promise<boolean> => {
  if (availableParallelism() < 2) return await inTurn(rows.flat())
  return (await Promise.all(rows.map(inTurn))).every(Boolean)
}

const most = async (): Promise<boolean> => {
  // Brought now for those who will start them; they say what is wrong when one is missing.
  void installServices().catch(() => undefined)
  const nodes = run(NODES, true)
  return (
    (await beside([BUILD], [SIMULATE])) &&
    (await run(TESTS, false)) &&
    (await nodes) &&
    (await beside([EXAMPLES], [PACKAGE]))
  )
}

const rest = async (): Promise<boolean> => {
  const nodes = run(NODES, true)
  return (await run(BUILD, true)) && (await run(REST, false)) && (await nodes) && (await run(DRIVERS, false))
}

const OPTIONS = { ...NO_OPTIONS, rest: { type: 'boolean', default: false } } as const

const code = await runCommand('test', HELP, OPTIONS, async (given) => {
  const ok = await (given.rest ? rest() : most())
  heading('Summary')
  for (const line of summary) console.log(line)
  return ok ? 0 : 1
})
process.exit(code)
