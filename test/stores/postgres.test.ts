/** The conformance suite over the newest PostgreSQL, in both layouts. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from './postgres-harness.ts'
import { newPostgresUrl } from './servers.ts'

describe('PostgreSQL, newest', () => {
  runStoreSuite({ describe, it, create: () => createHarness(newPostgresUrl()) })
})
