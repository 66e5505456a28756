/** How hunters are run, and what they need. */
import type { Hunter } from './mutant.ts'

/** Most defects show within the first hundred; a healthy run takes half a minute. */
const SEEDS = 150

/** As in vitest.config.ts: these find their servers through the environment. */
const DATABASES = /^test\/(databases\/|stores\/(postgres|mysql|mariadb))/

export const needsServers = (hunter: Hunter): boolean => DATABASES.test(hunter)

/** What Node runs. The first failure is enough. */
export const commandOf = (hunter: Hunter): readonly string[] => {
  if (hunter === 'simulator') return ['--import', 'tsx', 'simulator/main.ts', '--seeds', String(SEEDS)]
  const project = needsServers(hunter) ? 'databases' : 'embedded'
  return ['node_modules/vitest/vitest.mjs', 'run', hunter, '--project', project, '--bail', '1']
}
