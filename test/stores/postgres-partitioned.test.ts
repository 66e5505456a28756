/** The conformance suite with partitioned tables. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { GO_WITH_PARTITIONS } from './partition-cases.ts'
import { createHarness } from './postgres-harness.ts'
import { newPostgresUrl } from './servers.ts'

describe('PostgreSQL, partitioned', () => {
  runStoreSuite({
    describe,
    it,
    create: () => createHarness(newPostgresUrl(), { layout: 'partitioned', period: 'month' }),
    skip: GO_WITH_PARTITIONS,
  })
})
