import fc from 'fast-check'
import { expect, it } from 'vitest'
import { SILENT_LOGGER } from '../../core/runtime/logger.ts'
import { createSystemRuntime } from '../../core/runtime/system-runtime.ts'
import { createMemoryDatabase } from './database.ts'
import { memoryStore } from './memory-store.ts'
import { SortedList } from './sorted-list.ts'

const openStore = async (database = createMemoryDatabase()) => {
  const store = memoryStore({ database })
  await store.open({ runtime: createSystemRuntime(), logger: SILENT_LOGGER })
  return store
}

const refused = (text: string) =>
  expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION', message: expect.stringContaining(text) })

it.each([
  [{ databse: undefined }, 'memoryStore does not know "databse"; did you mean "database"?'],
  [{ database: {} }, 'database must come from createMemoryDatabase()'],
  [{ database: null }, 'database must come from createMemoryDatabase()'],
  [null, 'memoryStore must be an object'],
])('the options %j of a store are refused', (options, text) => {
  expect(() => memoryStore(options as never)).toThrow(refused(text))
})

it.each([
  [{ clok: Date.now }, 'createMemoryDatabase does not know "clok"; did you mean "clock"?'],
  [{ clock: 5 }, 'clock must be a function'],
  [null, 'createMemoryDatabase must be an object'],
])('the options %j of a database are refused', (options, text) => {
  expect(() => createMemoryDatabase(options as never)).toThrow(refused(text))
})

it('business data is visible after the commit and gone after a rollback, like the events', async () => {
  const store = await openStore()
  await store.transactions.run(async (tx) => {
    tx.set('order', 1)
    expect(tx.get('order')).toBe(1)
    expect(store.database.get('order')).toBeUndefined()
    const nested = store.transactions.nested!(tx, async (inner) => {
      inner.set('order', 2)
      throw new Error('only the inner part')
    })
    await expect(nested).rejects.toThrow('only the inner part')
    expect(tx.get('order')).toBe(1)
  })
  expect(store.database.get('order')).toBe(1)
  const failing = store.transactions.run(async (tx) => {
    tx.set('order', 3)
    throw new Error('all of it')
  })
  await expect(failing).rejects.toThrow('all of it')
  expect(store.database.get('order')).toBe(1)
})

it('a savepoint undoes what was written through the outer handle meanwhile, as a connection would', async () => {
  const store = await openStore()
  await store.transactions.run(async (tx) => {
    const nested = store.transactions.nested!(tx, async () => {
      tx.set('through the outer handle', true)
      throw new Error('undone')
    })
    await expect(nested).rejects.toThrow('undone')
  })
  expect(store.database.get('through the outer handle')).toBeUndefined()
})

it('observers hear the end of their part of the transaction', async () => {
  const store = await openStore()
  const heard: string[] = []
  const watch = (name: string) => ({
    committed: () => heard.push(`${name} committed`),
    rolledBack: () => heard.push(`${name} rolled back`),
  })
  await store.transactions.run(async (tx) => {
    store.transactions.observe!(tx, watch('outer'))
    const nested = store.transactions.nested!(tx, async (inner) => {
      store.transactions.observe!(inner, watch('inner'))
      throw new Error('inner')
    })
    await expect(nested).rejects.toThrow('inner')
    expect(heard).toEqual(['inner rolled back'])
  })
  expect(heard).toEqual(['inner rolled back', 'outer committed'])
})

it('closing a store rolls back what its process left open, and refuses everything after', async () => {
  const database = createMemoryDatabase()
  const [crashed, other] = [await openStore(database), await openStore(database)]
  const open = await crashed.transactions.begin!()
  open.tx.set('order', 1)
  await crashed.close()
  await expect(open.commit()).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
  await expect(crashed.registry.load()).rejects.toMatchObject({ code: 'POSTHASTE_CLOSED' })
  expect(database.get('order')).toBeUndefined()
  expect((await other.registry.load()).version).toBe(0)
})

it('a sorted list is a sorted array, whatever is added and removed', () => {
  const steps = fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 2_000 })), { maxLength: 3_000 })
  fc.assert(
    fc.property(steps, fc.integer({ min: -1, max: 2_001 }), (changes, bound) => {
      const list = new SortedList<number>((a, b) => a - b)
      const model = new Set<number>()
      for (const [add, value] of changes) {
        if (add && !model.has(value)) list.add(value)
        else if (!add) expect(list.delete(value)).toBe(model.has(value))
        if (add) model.add(value)
        else model.delete(value)
      }
      const sorted = [...model].sort((a, b) => a - b)
      expect([...list]).toEqual(sorted)
      expect(list.size).toBe(sorted.length)
      expect(list.first()).toBe(sorted[0])
      expect([...list.upFrom((item) => item <= bound)]).toEqual(sorted.filter((item) => item > bound))
      const below = sorted.filter((item) => item < bound)
      expect([...list.downFrom((item) => item < bound)]).toEqual(below.reverse())
    }),
    { numRuns: 50 },
  )
})
