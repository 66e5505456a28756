/** The conformance suite over MariaDB. */
import { afterAll, describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness, TablePool } from './mysql-harness.ts'

const tables = new TablePool('mariadb')

afterAll(() => tables.drop())

describe('MariaDB', () => {
  runStoreSuite({ describe, it, create: () => createHarness('mariadb', {}, tables) })
})
