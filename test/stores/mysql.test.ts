/** The conformance suite over MySQL. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from './mysql-harness.ts'

describe('MySQL', () => {
  runStoreSuite({ describe, it, create: () => createHarness('mysql') })
})
