/** The conformance suite with partitioned tables, on both servers. */
import { afterAll, describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness, TablePool } from './mysql-harness.ts'
import { SERVERS } from './mysql-words.ts'

/** Cleaning removes rows of the tail alone; the others go with their partition (mysql-partitions.test.ts). */
const WITH_PARTITIONS = [
  'finished deliveries past their retention go, and their event with the last of them',
  'dead deliveries have a retention of their own, or none',
  'discarded deliveries are counted apart',
  '[42] one step of cleaning is bounded and says that there is more',
  'a settle that is repeated after the cleaning is lost and changes nothing',
]

describe.each(SERVERS)('%s, partitioned', (server) => {
  const tables = new TablePool(server)
  afterAll(() => tables.drop())

  runStoreSuite({
    describe,
    it,
    create: () => createHarness(server, { layout: 'partitioned', period: 'month' }, tables),
    skip: WITH_PARTITIONS.map((test) => ({ test, reason: 'finished rows go with their partition' })),
  })
})
