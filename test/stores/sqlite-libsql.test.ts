/** The conformance suite over libsql, in a file. */
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHarness } from './sqlite-harness.ts'

runStoreSuite({ describe, it, create: () => createHarness('libsql') })
