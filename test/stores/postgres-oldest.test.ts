/** The conformance suite over the oldest PostgreSQL that can be had. */
import { afterAll, describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness, schemasAt } from './postgres-harness.ts'
import { postgresUrl } from './servers.ts'

const schemas = schemasAt(postgresUrl())

afterAll(() => schemas.drop())

describe('PostgreSQL, oldest', () => {
  runStoreSuite({ describe, it, create: () => createHarness(postgresUrl(), {}, schemas) })
})
