/** The conformance suite over MariaDB. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from './mysql-harness.ts'

describe('MariaDB', () => {
  runStoreSuite({ describe, it, create: () => createHarness('mariadb') })
})
