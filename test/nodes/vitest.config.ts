import { defineConfig } from 'vitest/config'
import { common } from '../../vitest.config.ts'

/** `npm run test:nodes` runs these under a newer Node, with the packages installed here. */
export default defineConfig({
  test: { ...common, pool: 'forks', maxWorkers: 2, include: ['test/nodes/**/*.test.ts'] },
})
