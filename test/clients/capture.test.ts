/** Entities that are flushed in a transaction of the outbox, and what becomes of their events. */
import {
  EntitySchema,
  type MikroORM,
  type EntityManager as MikroOrmManager,
  TransactionContext,
  TransactionPropagation,
} from '@mikro-orm/core'
import type { SqlEntityManager } from '@mikro-orm/postgresql'
import { DataSource, type EntityManager, EntitySchema as TypeormSchema } from 'typeorm'
import { describe, expect, it, onTestFinished } from 'vitest'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { typeormTransactions } from '../../src/clients/typeorm.ts'
import { createOutbox, type Draft, type Outbox } from '../../src/index.ts'
import type { SqlExecutor } from '../../src/stores/postgres/index.ts'
import { openDatabase, type TestDatabase } from './databases.ts'
import { mikroOrmOn } from './libraries/mikro-orm.ts'

class Row {
  n!: number
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

/** What the cases need of a library. */
interface Capturing<Tx> {
  readonly outbox: Outbox<Tx, SqlExecutor>
  save(tx: Tx, entity: Row): Promise<unknown>
  nested(tx: Tx, fn: (tx: Tx) => Promise<void>): Promise<void>
  /** Another transaction, on another connection. */
  beside(fn: (tx: Tx) => Promise<unknown>): Promise<unknown>
  load(tx: Tx, n: number): Promise<Row>
  exec(tx: Tx, sql: string): Promise<unknown>
  close(): Promise<void>
}

const tableOf = ({ rows }: TestDatabase): { schema: string; tableName: string } => {
  const [schema = '', tableName = ''] = rows.split('.')
  return { schema, tableName }
}

const onMikroOrm = async (database: TestDatabase, capture: boolean, forceConstructor = true) => {
  const properties = { n: { type: 'number', primary: true } } as const
  const schema = new EntitySchema<Row>({ class: Row, ...tableOf(database), properties, forceConstructor })
  const orm: MikroORM = await mikroOrmOn(database, [schema])
  const transactions = mikroOrmTransactions(orm, { capture })
  const library: Capturing<MikroOrmManager> = {
    outbox: createOutbox({ store: database.store, transactions, migrate: true }),
    save: (em, entity) => em.persist(entity).flush(),
    nested: (em, fn) => em.transactional((inner) => fn(inner as typeof em)),
    beside: (fn) => {
      const em = orm.em.fork()
      const propagation = TransactionPropagation.REQUIRES_NEW
      return TransactionContext.create(em, () =>
        em.transactional((other) => fn(other as typeof em), { propagation }),
      )
    },
    close: () => orm.close(),
    load: (em, n) => em.findOneOrFail(Row, { n }),
    exec: (em, sql) => (em as unknown as SqlEntityManager).execute(sql),
  }
  return library
}

const onTypeorm = async (database: TestDatabase, capture: boolean) => {
  const { schema, tableName } = tableOf(database)
  const columns = { n: { type: 'int', primary: true } } as const
  const entity = new TypeormSchema<Row>({ name: 'Row', target: Row, schema, tableName, columns })
  const source = new DataSource({ type: 'postgres', url: database.url, entities: [entity] })
  await source.initialize()
  const transactions = typeormTransactions(source, { capture })
  const library: Capturing<EntityManager> = {
    outbox: createOutbox({ store: database.store, transactions, migrate: true }),
    save: (manager, one) => manager.save(one),
    nested: (manager, fn) => manager.transaction(fn),
    beside: (fn) => source.transaction(fn),
    close: () => source.destroy(),
    load: (manager, n) => manager.findOneByOrFail(Row, { n }),
    exec: (manager, sql) => manager.query(sql),
  }
  return library
}

const LIBRARIES = { MikroORM: onMikroOrm, TypeORM: onTypeorm }

describe.each(['MikroORM', 'TypeORM'] as const)('events of entities that %s writes', (name) => {
  const open = async (capture = true) => {
    const database = await openDatabase('postgres')
    const library = (await LIBRARIES[name](database, capture)) as unknown as Capturing<unknown>
    const { outbox } = library
    outbox.onAny(() => undefined)
    await outbox.start()
    onTestFinished(async () => {
      await outbox.close()
      await library.close()
      await database.dispose()
    })
    const stored = async (): Promise<string[]> => {
      const { deliveries } = await outbox.inspect.list({ limit: 100, order: 'oldest' })
      return deliveries.map(({ type }) => type).sort()
    }
    const spoil = (tx: unknown): Promise<unknown> => library.exec(tx, database.spoiling ?? '')
    const change = (tx: unknown, entity: Row, n: number): Promise<unknown> =>
      library.save(tx, Object.assign(entity, { n }))
    return { ...library, change, spoil, stored, written: () => database.numbers() }
  }

  it('are published without a call, once, however often they are written or published by hand', async () => {
    const { outbox, save, stored, written } = await open()
    await outbox.transaction(async (tx) => {
      const one = row(1).happened('a')
      await save(tx, one)
      await outbox.publishFrom(tx, one)
      outbox.track(one.happened('b'))
      await save(tx, one)
      await save(tx, row(2).happened('c'))
    })
    expect(await stored()).toEqual(['a', 'b', 'c'])
    expect(await written()).toEqual([1, 2])
  })

  it('are not published when the transaction is rolled back, and stay with the entity', async () => {
    const { outbox, save, stored, written } = await open()
    const one = row(1).happened('a')
    const failing = outbox.transaction(async (tx) => {
      await save(tx, one)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await stored()).toEqual([])
    expect(await written()).toEqual([])
    await outbox.transaction((tx) => outbox.publishFrom(tx, one))
    expect(await stored()).toEqual(['a'])
  })

  it('have been pulled when it is the COMMIT that fails', async () => {
    const { outbox, save, spoil, stored } = await open()
    const one = row(1).happened('a')
    const failing = outbox.transaction(async (tx) => {
      await save(tx, one)
      await spoil(tx)
    })
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await stored()).toEqual([])
    expect(one.pullEvents()).toEqual([])
  })

  it.each(['the outbox', 'the library'])(
    'are not published when a nested transaction of %s is undone',
    async (whose) => {
      const { outbox, save, nested, stored, written } = await open()
      await outbox.transaction(async (tx) => {
        const within = (at: unknown, fn: (inner: unknown) => Promise<void>): Promise<void> =>
          whose === 'the outbox' ? outbox.transaction(fn) : nested(at, fn)
        await within(tx, async (inner) => {
          await within(inner, (innermost) => save(innermost, row(1).happened('undone')) as Promise<void>)
          throw new Error('undo')
        }).catch(() => undefined)
        await within(tx, (inner) => save(inner, row(2).happened('kept')) as Promise<void>)
      })
      expect(await stored()).toEqual(['kept'])
      expect(await written()).toEqual([2])
    },
  )

  it('are not published when a nested one of the outbox ended well in one of the library that is undone', async () => {
    const { outbox, save, nested, stored, written } = await open()
    const both = row(1)
    await outbox.transaction(async (tx) => {
      await save(tx, both)
      await nested(tx, async (inner) => {
        await outbox.transaction((innermost) => save(innermost, row(2).happened('undone')))
        throw new Error('undo')
      }).catch(() => undefined)
      both.happened('kept')
    })
    expect(await stored()).toEqual(['kept'])
    expect(await written()).toEqual([1])
  })

  it('are not published when all that was written of an entity was undone, though it was there before', async () => {
    const { outbox, save, load, change, nested, stored } = await open()
    await outbox.transaction(async (tx) => {
      await save(tx, row(1))
      await save(tx, row(2))
      await save(tx, row(3))
    })
    await outbox.transaction(async (tx) => {
      const [undone, again, untouched] = [await load(tx, 1), await load(tx, 2), await load(tx, 3)]
      // A flush before, for MikroORM: it has them all by then.
      await save(tx, row(4))
      const undo = async (inner: unknown): Promise<void> => {
        await change(inner, undone.happened('undone'), 10)
        await change(inner, again, 20)
        throw new Error('undo')
      }
      await outbox.transaction(undo).catch(() => undefined)
      await nested(tx, undo).catch(() => undefined)
      await change(tx, again.happened('again'), 21)
      await change(tx, untouched.happened('untouched'), 30)
    })
    expect(await stored()).toEqual(['again', 'untouched'])
  })

  it('are published when the entity was given to track, whatever is undone of it', async () => {
    const { outbox, save, load, change, nested, stored } = await open()
    await outbox.transaction((tx) => save(tx, row(1)))
    await outbox.transaction(async (tx) => {
      const tracked = await load(tx, 1)
      await save(tx, row(2))
      outbox.track(tracked).happened('tracked')
      await nested(tx, async (inner) => {
        await change(inner, tracked, 10)
        throw new Error('undo')
      }).catch(() => undefined)
    })
    expect(await stored()).toEqual(['tracked'])
  })

  it('are published when an entity was written outside, also those that it got in an undone nested one', async () => {
    const { outbox, save, change, nested, stored } = await open()
    await outbox.transaction(async (tx) => {
      const one = row(1).happened('kept')
      await save(tx, one)
      await nested(tx, async (inner) => {
        await change(inner, one.happened('of the undone one'), 10)
        throw new Error('undo')
      }).catch(() => undefined)
    })
    expect(await stored()).toEqual(['kept', 'of the undone one'])
  })

  it('are published when the entity was loaded', async () => {
    const { outbox, save, load, stored } = await open()
    await outbox.transaction((tx) => save(tx, row(1)))
    await outbox.transaction(async (tx) => {
      const loaded = await load(tx, 1)
      loaded.n = 2
      await save(tx, loaded.happened('renumbered'))
    })
    expect(await stored()).toEqual(['renumbered'])
  })

  it('stay where they are unless that was asked for', async () => {
    const { outbox, save, stored, written } = await open(false)
    const one = row(1).happened('a')
    await outbox.transaction((tx) => save(tx, one))
    expect(await stored()).toEqual([])
    expect(await written()).toEqual([1])
    expect(one.pullEvents()).toHaveLength(1)
  })

  it('do not get here from a transaction beside this one', async () => {
    const { outbox, save, beside, stored, written } = await open()
    await outbox.transaction(() => beside((tx) => save(tx, row(1).happened('beside'))))
    expect(await stored()).toEqual([])
    expect(await written()).toEqual([1])
  })
})

describe('MikroORM', () => {
  it('makes loaded entities without their constructor unless it is told to; that is an error, not a loss', async () => {
    const database = await openDatabase('postgres')
    const { outbox, save, load, close } = await onMikroOrm(database, true, false)
    onTestFinished(async () => {
      await outbox.close()
      await close()
      await database.dispose()
    })
    await outbox.transaction((em) => save(em, row(1)))
    await expect(outbox.transaction((em) => load(em, 1))).rejects.toThrow('#events')
  })
})

describe('entities that MikroORM only has', () => {
  it('are asked although an undone nested transaction had them too: it did not write them', async () => {
    const database = await openDatabase('postgres')
    const { outbox, save, load, close } = await onMikroOrm(database, true)
    outbox.onAny(() => undefined)
    await outbox.start()
    onTestFinished(async () => {
      await outbox.close()
      await close()
      await database.dispose()
    })
    await outbox.transaction((em) => save(em, row(1)))
    await outbox.transaction(async (em) => {
      const loaded = await load(em, 1)
      const undone = em.transactional(async (inner) => {
        await save(inner as typeof em, row(2))
        throw new Error('undo')
      })
      await undone.catch(() => undefined)
      loaded.happened('noted')
    })
    const { deliveries } = await outbox.inspect.list({ limit: 10 })
    expect(deliveries.map(({ type }) => type)).toEqual(['noted'])
  })
})

describe('the flush of MikroORM before the commit', () => {
  it('is part of the transaction of the outbox', async () => {
    const database = await openDatabase('postgres')
    const { outbox, close } = await onMikroOrm(database, true)
    outbox.onAny(() => undefined)
    await outbox.start()
    onTestFinished(async () => {
      await outbox.close()
      await close()
      await database.dispose()
    })
    await outbox.transaction(async (em) => void em.persist(row(1).happened('late')))
    const { deliveries } = await outbox.inspect.list({ limit: 10 })
    expect(deliveries.map(({ type }) => type)).toEqual(['late'])
    // What it refuses is the error, as it is, and not a COMMIT that nobody knows about.
    const broken = outbox.transaction(async (em) => void em.persist(row('x' as never)))
    await expect(broken).rejects.not.toMatchObject({ code: expect.stringMatching(/^POSTHASTE_COMMIT/) })
    expect(await database.numbers()).toEqual([1])
  })
})
