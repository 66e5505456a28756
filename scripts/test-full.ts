/** The tests at the sizes that the documents name: minutes become an hour. `npm test` runs the same at reduced scale. */
import { BUILD, reportSteps, runStep, STEP_OPTIONS, type Step, script } from './test-steps.ts'
import { runCommand } from './usage.ts'

const HELP = `Usage: npm run test:full [-- --json]

All tests at the sizes that the documents name: 20,000 events while processes are killed, plans with up to a million
rows, 2,000 simulated histories, clients on every database, takeovers, other Nodes, the packed
package with every data layer. About an hour.

  --json   the last line on stdout is one JSON object: {suite, passed, failed, steps: [{name, ok, seconds}]}

Exit code: 0 all is well, 1 something is not, 2 the command was not understood.
`

/** Rows of history under which plans are looked at. */
const ROWS = [20_000, 100_000, 1_000_000]
const SEEDS = 2_000

const TESTS: Step = {
  name: 'All tests, with 20,000 events under kills',
  command: ['vitest', 'run'],
  // Clients on both MariaDB and MySQL.
  env: { POSTHASTE_TEST_EVENTS: '20000', POSTHASTE_TEST_FULL: 'true' },
}

const plansWith = (rows: number): Step => ({
  name: `Plans with ${rows} rows of history`,
  command: ['vitest', 'run', '--project', 'databases', 'plans'],
  env: { POSTHASTE_TEST_ROWS: String(rows) },
})

const STEPS: readonly Step[] = [
  BUILD,
  TESTS,
  ...ROWS.map(plansWith),
  { name: `${SEEDS} simulated histories`, command: script('simulator/main.ts', '--seeds', String(SEEDS)) },
  { name: 'Takeover of lanes', command: script('bench/takeover.ts') },
  { name: 'Other Nodes', command: script('scripts/nodes.ts', 'test') },
  {
    name: 'The packed package with every data layer',
    command: script('scripts/test-package.ts', '--built', '--full'),
  },
]

const inTurn = async (): Promise<boolean> => {
  for (const step of STEPS) if (!(await runStep(step, { aside: false }))) return false
  return true
}

process.exit(
  await runCommand('test:full', HELP, STEP_OPTIONS, async ({ json }) =>
    reportSteps('full', await inTurn(), json),
  ),
)
