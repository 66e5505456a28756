import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '../../src/core/runtime/logger.ts'
import { createSystemRuntime } from '../../src/core/runtime/system-runtime.ts'
import { checkInvariants, createMemoryDatabase, memoryStore } from '../../src/stores/memory/index.ts'
import { runStoreSuite } from '../../src/testing/suites/index.ts'

describe('the memory store', () => {
  runStoreSuite({
    describe,
    it,
    create: async () => {
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
        dispose: async () => expect(checkInvariants(database)).toEqual([]),
      }
    },
  })
})
