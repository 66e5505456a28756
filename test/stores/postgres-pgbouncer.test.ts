/** The conformance suite through PgBouncer in transaction mode: no state of a session may matter. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from './postgres-harness.ts'
import { pgbouncerUrl } from './servers.ts'

describe('PostgreSQL behind PgBouncer', () => {
  runStoreSuite({ describe, it, create: () => createHarness(pgbouncerUrl()) })
})
