import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    // test/nodes needs a newer Node and its own packages: `npm run test:nodes` runs it (scripts/nodes.ts).
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: ['**/node_modules/**', 'test/nodes/**'],
    setupFiles: ['test/fast-check.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    // A test that only sometimes passes is a defect, so nothing is tried twice.
    retry: 0,
    pool: 'forks',
    maxWorkers: 2,
  },
})
