/** How hunters are run, and what they need. */
import type { Hunter } from './mutant.ts'

/** Most defects show within the first hundred; a healthy run takes half a minute. */
const SEEDS = 150

/** As in vitest.config.ts: these find their servers through the environment. */
const DATABASES = /^test\/(clients\/|databases\/|stores\/(postgres|mysql|mariadb))/

/** The file of tests, and the title of those that are meant if it is not all of them. */
export const partsOf = (hunter: Hunter): readonly [file: string, title?: string] =>
  hunter.split(' > ') as [string, string?]

export const needsServers = (hunter: Hunter): boolean => DATABASES.test(hunter)

/** As in vitest.config.ts. What needs no server is in one of two: some files share a process. */
const projectsOf = (hunter: Hunter, file: string): readonly string[] => {
  if (needsServers(hunter)) return ['databases']
  return file.startsWith('src/') ? ['unit'] : ['embedded', 'journeys']
}

/** What Node runs. The first failure is enough. */
export const commandOf = (hunter: Hunter): readonly string[] => {
  if (hunter === 'simulator')
    return ['--import', 'tsx', 'simulator/main.ts', '--first', '--seeds', String(SEEDS)]
  const [file, title] = partsOf(hunter)
  const only = title === undefined ? [] : ['--testNamePattern', title]
  const projects = projectsOf(hunter, file).flatMap((name) => ['--project', name])
  return ['node_modules/vitest/vitest.mjs', 'run', file, ...projects, '--bail', '1', ...only]
}
