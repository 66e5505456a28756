/** The conformance suite over MySQL. */
import { afterAll, describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness, TablePool } from './mysql-harness.ts'

const tables = new TablePool('mysql')

afterAll(() => tables.drop())

describe('MySQL', () => {
  runStoreSuite({ describe, it, create: () => createHarness('mysql', {}, tables) })
})
