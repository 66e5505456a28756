import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createMemoryHarness } from './memory-harness.ts'

describe('the memory store', () => {
  runStoreSuite({ describe, it, create: createMemoryHarness })
})
