/** The conformance suite with partitioned tables. */
import { afterAll, describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { GO_WITH_PARTITIONS } from './partition-cases.ts'
import { createHarness, schemasAt } from './postgres-harness.ts'
import { newPostgresUrl } from './servers.ts'

const schemas = schemasAt(newPostgresUrl())

afterAll(() => schemas.drop())

describe('PostgreSQL, partitioned', () => {
  runStoreSuite({
    describe,
    it,
    create: () => createHarness(newPostgresUrl(), { layout: 'partitioned', period: 'month' }, schemas),
    skip: GO_WITH_PARTITIONS,
  })
})
