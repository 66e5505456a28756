/** The conformance suite over libsql, in memory. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from './sqlite-harness.ts'

runStoreSuite({
  describe,
  it,
  create: () => createHarness('libsql', { memory: true }),
  skip: [{ test: 'another process sees the same queue', reason: 'memory belongs to one process' }],
})
