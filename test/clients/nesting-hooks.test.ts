/** Hooks that TypeORM and MikroORM wait for while they begin or end a nested transaction, and that publish. */
import type { EntityManager, MikroORM } from '@mikro-orm/core'
import { describe, expect, it, onTestFinished } from 'vitest'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { typeormTransactions } from '../../src/clients/typeorm.ts'
import type { Transactions } from '../../src/core/spi/index.ts'
import { createOutbox } from '../../src/index.ts'
import type { SqlExecutor } from '../../src/stores/sqlite/index.ts'
import { openDatabase, type TestDatabase } from './databases.ts'
import { mikroOrmOn } from './libraries/mikro-orm.ts'
import { typeormOn } from './libraries/typeorm.ts'

/** Both libraries call them by the same names. */
const BEGINNINGS = ['beforeTransactionStart', 'afterTransactionStart'] as const
const ENDS = {
  well: ['beforeTransactionCommit', 'afterTransactionCommit'],
  undone: ['beforeTransactionRollback', 'afterTransactionRollback'],
} as const

interface Opened {
  readonly transactions: Transactions<object, SqlExecutor>
  subscribe(subscriber: object): void
  close(): Promise<unknown>
}

const OPEN: Readonly<Record<string, (database: TestDatabase) => Promise<Opened>>> = {
  TypeORM: async (database) => {
    const source = await typeormOn(database)
    return {
      transactions: typeormTransactions(source) as Opened['transactions'],
      subscribe: (subscriber) => void (source.subscribers as object[]).push(subscriber),
      close: () => source.destroy(),
    }
  },
  MikroORM: async (database) => {
    const orm = await mikroOrmOn(database)
    return {
      transactions: mikroOrmTransactions(orm as MikroORM & { em: EntityManager }) as Opened['transactions'],
      subscribe: (subscriber) => orm.em.getEventManager().registerSubscriber(subscriber),
      close: () => orm.close(),
    }
  },
}

/** An event of the hook, once, in a nested transaction that ends this way; and whether it is stored and heard. */
const publishIn = async (name: string, hook: string, end: keyof typeof ENDS) => {
  const database = await openDatabase('sqlite')
  const library = await (OPEN[name] as (typeof OPEN)[string])(database)
  // Nothing is read for a long time, unless the poller is told to.
  const outbox = createOutbox({
    store: database.store,
    transactions: library.transactions,
    migrate: true,
    pollIntervalMs: 30_000,
    pollIdleMaxMs: 30_000,
  })
  const heard = new Set<string>()
  const waiting: (() => void)[] = []
  outbox.onAny(({ id }) => {
    heard.add(id)
    for (const look of waiting) look()
  })
  await outbox.start()
  onTestFinished(async () => {
    await outbox.close()
    await library.close()
    await database.dispose()
  })
  let isArmed = false
  let id = ''
  library.subscribe({
    async [hook]() {
      if (!isArmed) return
      isArmed = false
      id = await outbox.publish({ type: 'hook', payload: 1 })
    },
  })
  await outbox.transaction(async () => {
    isArmed = true
    const nested = outbox.transaction(async () => {
      if (end === 'undone') throw new Error('undo')
    })
    await nested.catch(() => undefined)
  })
  const found = await outbox.inspect.event(id)
  if (found !== null)
    await new Promise<void>((resolve) => {
      const look = (): void => (heard.has(id) ? resolve() : undefined)
      waiting.push(look)
      look()
    })
  return { id, isStored: found !== null, deliveries: found?.deliveries.length ?? 0, heard: heard.size }
}

const WHOLE = { isStored: true, deliveries: 1, heard: 1 }
const NOTHING = { isStored: false, deliveries: 0, heard: 0 }

describe.each(Object.keys(OPEN))('%s', (name) => {
  describe.each(['well', 'undone'] as const)('and a nested transaction that ends %s', (end) => {
    it.each([...BEGINNINGS, ...ENDS[end]])('%s publishes', async (hook) => {
      const { id, ...found } = await publishIn(name, hook, end)
      expect(id).not.toBe('')
      const isInside = hook === 'afterTransactionStart' || hook === 'beforeTransactionRollback'
      expect(found).toEqual(end === 'undone' && isInside ? NOTHING : WHOLE)
    })
  })
})
