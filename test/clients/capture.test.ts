/** Entities that are flushed in a transaction of the outbox, and what becomes of their events. */
import { EntitySchema, type MikroORM } from '@mikro-orm/core'
import { afterAll, describe, expect, it } from 'vitest'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { createOutbox, type Draft } from '../../src/index.ts'
import { openDatabase } from './databases.ts'
import { mikroOrmOn } from './libraries/mikro-orm.ts'

class Row {
  n!: number
  note: string | null = null
  readonly #events: Draft[] = []

  happened(type: string): this {
    this.#events.push({ type, payload: { n: this.n } })
    return this
  }

  pullEvents(): Draft[] {
    return this.#events.splice(0)
  }
}

const row = (n: number): Row => Object.assign(new Row(), { n })

const RowSchema = new EntitySchema<Row>({
  class: Row,
  tableName: 'client_rows',
  properties: { n: { type: 'number', primary: true }, note: { type: 'string', nullable: true, persist: false } },
})

const opened = async (capture = true) => {
  const database = await openDatabase('sqlite')
  const orm = (await mikroOrmOn(database, [RowSchema])) as MikroORM
  const outbox = createOutbox({
    store: database.store,
    transactions: mikroOrmTransactions(orm, { capture }),
    migrate: true,
  })
  await outbox.start()
  afterAll(async () => {
    await outbox.close()
    await orm.close()
    await database.dispose()
  })
  const stored = async (): Promise<string[]> => {
    const { deliveries } = await outbox.inspect.list({ limit: 100, order: 'oldest' })
    return deliveries.map(({ type }) => type)
  }
  outbox.onAny(() => undefined)
  return { orm, outbox, stored, database }
}

describe('events of entities that MikroORM flushes', () => {
  it('are published without a call, also by the flush before the commit', async () => {
    const { outbox, stored, database } = await opened()
    await outbox.transaction(async (em) => {
      em.persist(row(1).happened('flushed'))
      await em.flush()
      em.persist(row(2).happened('left to the commit'))
    })
    expect((await stored()).sort()).toEqual(['flushed', 'left to the commit'])
    expect(await database.numbers()).toEqual([1, 2])
  })

  it('are published once, however often they are flushed or published by hand', async () => {
    const { outbox, stored } = await opened()
    await outbox.transaction(async (em) => {
      const one = row(1).happened('a')
      em.persist(one)
      await em.flush()
      await em.flush()
      await outbox.publishFrom(em, one)
      outbox.track(one.happened('b'))
      await em.flush()
    })
    expect((await stored()).sort()).toEqual(['a', 'b'])
  })

  it('are not published when the transaction is rolled back, and are when it is tried again', async () => {
    const { outbox, stored } = await opened()
    const one = row(1).happened('a')
    const once = (error: Error | null): Promise<void> =>
      outbox.transaction(async (em) => {
        em.persist(one)
        await em.flush()
        if (error !== null) throw error
      })
    await expect(once(new Error('no'))).rejects.toThrow('no')
    expect(await stored()).toEqual([])
    await once(null)
    expect(await stored()).toEqual(['a'])
  })

  it.each(['outbox', 'mikro-orm'])('are not published when a nested transaction of %s is undone', async (whose) => {
    const { outbox, stored, database } = await opened()
    await outbox.transaction(async (em) => {
      const nested = (fn: (inner: typeof em) => Promise<void>): Promise<void> =>
        whose === 'outbox' ? outbox.transaction(fn) : em.transactional(fn)
      await nested(async (inner) => {
        inner.persist(row(1).happened('undone'))
        await inner.flush()
        throw new Error('undo')
      }).catch(() => undefined)
      await nested(async (inner) => {
        inner.persist(row(2).happened('kept'))
      })
    })
    expect(await stored()).toEqual(['kept'])
    expect(await database.numbers()).toEqual([2])
  })

  it('stay where they are unless that was asked for', async () => {
    const { outbox, stored, database } = await opened(false)
    const one = row(1).happened('a')
    await outbox.transaction(async (em) => {
      em.persist(one)
    })
    expect(await stored()).toEqual([])
    expect(await database.numbers()).toEqual([1])
    expect(one.pullEvents()).toHaveLength(1)
  })

  it('of other transactions do not get into this one', async () => {
    const { orm, outbox, stored } = await opened()
    await outbox.transaction(async () => {
      const em = orm.em.fork()
      em.persist(row(1).happened('elsewhere'))
      // SQLite has one writer, and this transaction has not written yet.
      await em.transactional(async () => undefined, { propagation: 'requires_new' as never })
    }).catch(() => undefined)
    expect(await stored()).toEqual([])
  })
})
