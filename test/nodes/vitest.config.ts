import { defineConfig } from 'vitest/config'
import base from '../../vitest.config.ts'

/** For tests that need a newer Node than 20, or packages that do; scripts/nodes.ts runs them under Node 24. */
export default defineConfig({
  root: new URL('../..', import.meta.url).pathname,
  test: {
    ...base.test,
    include: ['test/nodes/**/*.test.ts'],
    exclude: ['**/node_modules/**'],
    passWithNoTests: true,
  },
})
