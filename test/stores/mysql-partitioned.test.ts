/** The conformance suite with partitioned tables: on MariaDB, and in the full run on MySQL too. */
import { afterAll, describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness, TablePool } from './mysql-harness.ts'
import { GO_WITH_PARTITIONS } from './partition-cases.ts'

const servers = (['mariadb', 'mysql'] as const).filter(
  (name) => name === 'mariadb' || process.env.POSTHASTE_TEST_FULL === 'true',
)

describe.each(servers)('%s, partitioned', (server) => {
  const tables = new TablePool(server)
  afterAll(() => tables.drop())

  runStoreSuite({
    describe,
    it,
    create: () => createHarness(server, { layout: 'partitioned', period: 'month' }, tables),
    skip: GO_WITH_PARTITIONS,
  })
})
