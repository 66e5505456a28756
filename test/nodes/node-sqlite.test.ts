/** The conformance suite over node:sqlite. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from '../stores/sqlite-harness.ts'

describe('node:sqlite, in a file', () => {
  runStoreSuite({ describe, it, create: () => createHarness('node:sqlite') })
})

describe('node:sqlite, in memory', () => {
  runStoreSuite({
    describe,
    it,
    create: () => createHarness('node:sqlite', { memory: true }),
    skip: [{ test: 'another process sees the same queue', reason: 'memory belongs to one process' }],
  })
})
