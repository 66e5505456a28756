/** The tests at the sizes that the documents name: minutes become an hour. `npm test` runs the same at reduced scale. */
import { heading, mustRun } from './run.ts'

const HELP = `npm run test:full

All tests at the sizes that the documents name: 20,000 events while processes are killed, plans with up to a million
rows, 2,000 simulated histories, clients on every database, takeovers, other Nodes, the packed
package with every data layer. About an hour. It takes no options.
`

if (process.argv.length > 2) {
  process.stdout.write(HELP)
  process.exit(process.argv[2] === '--help' ? 0 : 2)
}

/** Rows of history under which plans are looked at. */
const ROWS = [20_000, 100_000, 1_000_000]
const SEEDS = '2000'

process.env.POSTHASTE_TEST_EVENTS = '20000'
// Clients on both MariaDB and MySQL.
process.env.POSTHASTE_TEST_FULL = 'true'
heading('Build')
mustRun('tsdown', [])
heading('All tests, with 20,000 events under kills')
mustRun('vitest', ['run'])
for (const rows of ROWS) {
  heading(`Plans with ${rows} rows of history`)
  process.env.POSTHASTE_TEST_ROWS = String(rows)
  mustRun('vitest', ['run', '--project', 'databases', 'plans'])
}
heading(`${SEEDS} simulated histories`)
mustRun('node', ['--import', 'tsx', 'simulator/main.ts', '--seeds', SEEDS])
heading('Takeover of lanes')
mustRun('node', ['--import', 'tsx', 'bench/takeover.ts'])
heading('Other Nodes')
mustRun('node', ['--import', 'tsx', 'scripts/nodes.ts', 'test'])
heading('The packed package with every data layer on every Node')
mustRun('node', ['--import', 'tsx', 'scripts/test-package.ts', '--built', '--full'])
