/**
 * `npm test`, and with --rest `npm run test:rest`. What waits for the network goes on beside what needs the processor,
 * and what comes after the tests in pairs, because each of them alone keeps one processor busy.
 */
import { availableParallelism } from 'node:os'
import { type Part, REST_FILES, SPLIT_FILES } from '../test/parts.ts'
import { installServices } from './services/index.ts'
import { BUILD, reportSteps, runStep, STEP_OPTIONS, type Step, script } from './test-steps.ts'
import { runCommand } from './usage.ts'

const HELP = `Usage: npm test [-- --json]
       npm run test:rest [-- --json]

npm test: build, the tests, the examples, 500 simulated histories, the package on newer Nodes. A quarter of an hour.
npm run test:rest: what the tests leave out, such as one more server, driver or library (test/parts.ts), and the drivers of
newer Nodes. A quarter of an hour more. Of one file: npx vitest run FILE

  --json   the last line on stdout is one JSON object: {suite, passed, failed, steps: [{name, ok, seconds}]}

Exit code: 0 all is well, 1 something is not, 2 the command was not understood.
`

/**
 * Every Node that starts reads the certificates that the other variable names, for a tenth of a second. Only installing needs
 * them, which is over by then; where it failed, a test says so.
 */
const only = (part: Part) => ({ POSTHASTE_TEST_PART: part, NODE_EXTRA_CA_CERTS: '' })

/** The first three hundred are among the tests. */
const SIMULATE: Step = {
  name: 'Simulated histories',
  command: script('simulator/main.ts', '--from', '301', '--seeds', '200'),
}
const NODES: Step = { name: 'Other Nodes', command: script('scripts/nodes.ts', 'install') }
const TESTS: Step = { name: 'Tests', command: ['vitest', 'run'], env: only('most') }
const REST: Step = {
  name: 'The rest of the tests',
  command: ['vitest', 'run', ...REST_FILES, ...SPLIT_FILES],
  env: only('rest'),
}
const EXAMPLES: Step = { name: 'Examples', command: script('scripts/test-examples.ts', '--built') }
const DRIVERS: Step = { name: 'Drivers on other Nodes', command: script('scripts/nodes.ts', 'test') }
const PACKAGE: Step = { name: 'Package', command: script('scripts/test-package.ts', '--built') }

const ASIDE = { aside: true }
const IN_FRONT = { aside: false }

/** One after the other, until one fails. */
const inTurn = async (steps: readonly Step[]): Promise<boolean> => {
  for (const step of steps) if (!(await runStep(step, ASIDE))) return false
  return true
}

const beside = async (...rows: readonly (readonly Step[])[]): Promise<boolean> => {
  if (availableParallelism() < 2) return await inTurn(rows.flat())
  return (await Promise.all(rows.map(inTurn))).every(Boolean)
}

/** For those who will start them; they say what is wrong when one is missing. */
const bringServices = async (): Promise<true> => {
  await installServices().catch(() => undefined)
  return true
}

const most = async (): Promise<boolean> => {
  const installed = bringServices()
  const nodes = runStep(NODES, ASIDE)
  return (
    (await beside([BUILD], [SIMULATE])) &&
    (await installed) &&
    (await runStep(TESTS, IN_FRONT)) &&
    (await nodes) &&
    (await beside([EXAMPLES], [PACKAGE]))
  )
}

const rest = async (): Promise<boolean> => {
  const installed = bringServices()
  const nodes = runStep(NODES, ASIDE)
  return (
    (await runStep(BUILD, ASIDE)) &&
    (await installed) &&
    (await runStep(REST, IN_FRONT)) &&
    (await nodes) &&
    (await runStep(DRIVERS, IN_FRONT))
  )
}

const OPTIONS = { ...STEP_OPTIONS, rest: { type: 'boolean', default: false } } as const

const code = await runCommand('test', HELP, OPTIONS, async ({ rest: isRest, json }) =>
  isRest ? reportSteps('rest', await rest(), json) : reportSteps('most', await most(), json),
)
process.exit(code)
