import { defineConfig } from 'vitest/config'
import { isIn, REST_FILES } from './test/parts.ts'
import { MixedSequencer } from './test/sequencer.ts'

/** Tests that need a server. `npm test` starts what the environment does not name. */
const DATABASES = [
  'test/cli/postgres.test.ts',
  'test/cli/*-servers.test.ts',
  'test/clients/**/*.test.ts',
  'test/compat/servers.test.ts',
  'test/databases/**/*.test.ts',
  'test/migrations/**/*.test.ts',
  'test/nestjs/postgres*.test.ts',
  'test/stores/{postgres,mysql,mariadb}*.test.ts',
]

/** Tests that need brokers, which they start and end themselves. */
const BROKERS = ['test/publishers/brokers/**/*.test.ts']

const LEFT_OUT = ['**/node_modules/**', ...(isIn('rest') ? [] : REST_FILES)]

/** All in memory, so that nobody sees what another one does: files share a process and what it has loaded. */
const SHARING = ['test/journeys/!(processes).test.ts', 'test/publish/*.test.ts']

/** A test that only sometimes passes is a defect, so nothing is tried twice. The time is for those that hang, not for slow machines. */
export const common = {
  testTimeout: 300_000,
  hookTimeout: 300_000,
  // By default it is one second, which a busy machine takes for anything.
  expect: { poll: { timeout: 60_000 } },
  retry: 0,
}

export default defineConfig({
  test: {
    pool: 'forks',
    // Three more than the cores of a small machine: tests of databases and brokers mostly wait for them.
    maxWorkers: 5,
    sequence: { sequencer: MixedSequencer },
    projects: [
      {
        test: {
          ...common,
          name: 'unit',
          include: ['src/**/*.test.ts'],
          setupFiles: ['test/fast-check.ts'],
          isolate: false,
        },
      },
      {
        test: {
          ...common,
          name: 'journeys',
          include: SHARING,
          isolate: false,
        },
      },
      {
        test: {
          ...common,
          name: 'embedded',
          include: ['test/**/*.test.ts'],
          // test/nodes needs a newer Node and its own packages: `npm run test:nodes` runs it (scripts/nodes.ts).
          exclude: [...LEFT_OUT, 'test/nodes/**', ...SHARING, ...DATABASES, ...BROKERS],
        },
      },
      {
        test: {
          ...common,
          name: 'databases',
          include: DATABASES,
          exclude: LEFT_OUT,
          globalSetup: ['test/databases/services.ts'],
        },
      },
      {
        test: {
          ...common,
          name: 'brokers',
          include: BROKERS,
          exclude: LEFT_OUT,
          // A broker is installed, started, killed and started again within one test.
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
    ],
  },
})
