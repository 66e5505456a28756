/** A store on a new memory database with a clock of its own, checked for its invariants at the end of each case. */
import assert from 'node:assert/strict'
import { SILENT_LOGGER } from '../../src/core/runtime/logger.ts'
import { createSystemRuntime } from '../../src/core/runtime/system-runtime.ts'
import {
  checkInvariants,
  createMemoryDatabase,
  type MemoryTransaction,
  memoryStore,
} from '../../src/stores/memory/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'

export const createMemoryHarness = async (): Promise<StoreHarness<MemoryTransaction, MemoryTransaction>> => {
  let now = 1_800_000_000_000
  const database = createMemoryDatabase({ clock: () => now })
  const reopen = async () => {
    const store = memoryStore({ database })
    await store.open({ runtime: createSystemRuntime(), logger: SILENT_LOGGER })
    return store
  }
  return {
    store: await reopen(),
    reopen,
    advance: (ms) => {
      now += ms
    },
    setNextSeq: (seq) => database.setNextSeq(seq),
    corruptEvent: (id) => database.corruptEvent(id),
    dispose: async () => assert.deepEqual(checkInvariants(database), []),
  }
}
