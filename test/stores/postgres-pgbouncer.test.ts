/** The conformance suite through PgBouncer in transaction mode: no state of a session may matter. */
import { afterAll, describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness, schemasAt } from './postgres-harness.ts'
import { pgbouncerUrl } from './servers.ts'

const schemas = schemasAt(pgbouncerUrl())

afterAll(() => schemas.drop())

describe('PostgreSQL behind PgBouncer', () => {
  runStoreSuite({ describe, it, create: () => createHarness(pgbouncerUrl(), {}, schemas) })
})
