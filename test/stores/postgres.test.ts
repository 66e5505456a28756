/** The conformance suite over the newest PostgreSQL, in both layouts. */
import { afterAll, describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness, schemasAt } from './postgres-harness.ts'
import { newPostgresUrl } from './servers.ts'

const schemas = schemasAt(newPostgresUrl())

afterAll(() => schemas.drop())

describe('PostgreSQL, newest', () => {
  runStoreSuite({ describe, it, create: () => createHarness(newPostgresUrl(), {}, schemas) })
})
