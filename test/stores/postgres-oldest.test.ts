/** The conformance suite over the oldest PostgreSQL that can be had. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from './postgres-harness.ts'
import { postgresUrl } from './servers.ts'

describe('PostgreSQL, oldest', () => {
  runStoreSuite({ describe, it, create: () => createHarness(postgresUrl()) })
})
