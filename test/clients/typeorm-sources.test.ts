/** Data sources of TypeORM: when they are initialised, whose subscribers are told, and the one connection of SQLite. */
import { AsyncLocalStorage } from 'node:async_hooks'
import Libsql from 'libsql'
import { DataSource, type EntityManager, EntitySchema } from 'typeorm'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { Captures } from '../../src/clients/shared/captures.ts'
import { typeormTransactions } from '../../src/clients/typeorm.ts'
import { createOutbox, type Draft } from '../../src/index.ts'
import { openDatabase } from './databases.ts'

class Row {
  n!: number

  pullEvents(): Draft[] {
    return this.events.splice(0)
  }

  constructor(
    n = 0,
    private readonly events: Draft[] = [],
  ) {
    this.n = n
  }
}

const entity = new EntitySchema<Row>({
  name: 'Row',
  target: Row,
  tableName: 'client_rows',
  columns: { n: { type: 'int', primary: true } },
})

const event = (type: string): Draft => ({ type, payload: 1 })

const open = async (capture = false) => {
  const database = await openDatabase('sqlite')
  const source = new DataSource({
    type: 'better-sqlite3',
    driver: Libsql,
    database: database.url,
    entities: [entity],
  })
  const outbox = createOutbox({
    store: database.store,
    transactions: typeormTransactions(source, { capture }),
  })
  outbox.onAny(() => undefined)
  await source.initialize()
  await outbox.start()
  onTestFinished(async () => {
    await outbox.close()
    await source.destroy()
    await database.dispose()
  })
  const stored = async (): Promise<string[]> => {
    const { deliveries } = await outbox.inspect.list({ limit: 100, order: 'oldest' })
    return deliveries.map(({ type }) => type).sort()
  }
  const insert = (manager: EntityManager, n: number): Promise<unknown> =>
    manager.query(`INSERT INTO client_rows (n) VALUES (${n})`)
  const place = (n: number): Promise<void> =>
    outbox.transaction(async (manager) => {
      await insert(manager, n)
      await outbox.publish(manager, event(`e${n}`))
    })
  return { source, outbox, stored, insert, place, numbers: () => database.numbers() }
}

const gate = () => {
  let pass = (): void => undefined
  const passed = new Promise<void>((resolve) => {
    pass = resolve
  })
  return { pass, passed }
}

/** Of the event loop. */
const turns = async (count: number): Promise<void> => {
  for (let n = 0; n < count; n++) await new Promise(setImmediate)
}

describe('a data source', () => {
  it('may be initialised after the client was made, and once more: entities are captured all the same', async () => {
    const { source, outbox, stored } = await open(true)
    await outbox.transaction((manager) => manager.save(new Row(1, [event('a')])))
    await source.destroy()
    await source.initialize()
    await outbox.transaction((manager) => manager.save(new Row(2, [event('b')])))
    expect(await stored()).toEqual(['a', 'b'])
  })

  it('hands over no entity that is written outside of a transaction: it would never be let go', async () => {
    const { source, outbox, stored } = await open(true)
    await outbox.transaction((manager) => manager.save(new Row(1, [event('a')])))
    const take = vi.spyOn(Captures.prototype, 'take')
    onTestFinished(() => take.mockRestore())
    const repository = source.getRepository(Row)
    await repository.insert(new Row(2, [event('b')]))
    await repository.delete({ n: 2 })
    expect(take).not.toHaveBeenCalled()
    await outbox.transaction((manager) => manager.insert(Row, new Row(3, [event('c')])))
    expect(take).toHaveBeenCalledOnce()
    expect(await stored()).toEqual(['a', 'c'])
  })

  it('does not tell of the transactions of another one, which the poller finds', async () => {
    const { outbox, stored } = await open()
    const other = await openDatabase('sqlite')
    onTestFinished(() => other.dispose())
    const stranger = await new DataSource({
      type: 'better-sqlite3',
      driver: Libsql,
      database: other.url,
    }).initialize()
    const transactions = typeormTransactions(stranger)
    const { observe } = typeormTransactions((await open()).source)
    await stranger.transaction(async (manager) => {
      const ended = { committed: () => undefined, rolledBack: () => undefined }
      expect(observe?.(manager, ended)).toBe(false)
      expect(transactions.observe?.(manager, ended)).toBe(true)
    })
    await stranger.destroy()
    await outbox.transaction((manager) => outbox.publish(manager, event('a')))
    expect(await stored()).toEqual(['a'])
  })

  it('has managers that a Proxy may stand for: it is the one of the transaction where it is used', async () => {
    const { source, outbox, stored } = await open()
    const current = new AsyncLocalStorage<EntityManager>()
    const get = (_: object, name: string | symbol): unknown => Reflect.get(current.getStore() ?? {}, name)
    const proxy = new Proxy<EntityManager>(source.manager, { get })
    const client = typeormTransactions(source)
    await source.transaction((manager) =>
      current.run(manager, async () => {
        expect(client.standsFor?.(proxy)).toBe(manager)
        await outbox.publish(proxy, event('a'))
      }),
    )
    await expect(outbox.publish(proxy, event('b'))).rejects.toMatchObject({
      code: 'POSTHASTE_NO_TRANSACTION',
    })
    expect(await stored()).toEqual(['a'])
  })

  it('tells the client that opened a transaction what is written in it, and none of those that were made beside it', async () => {
    const { source } = await open(true)
    const told: number[] = []
    const clients = [1, 2, 3].map((n) => {
      const client = typeormTransactions(source, { capture: true })
      client.capture?.(() => {
        told.push(n)
        return null
      })
      return client
    })
    await clients[1]?.run((manager) => manager.save(new Row(1)))
    expect(told).toEqual([2])
  })

  it('has subscribers that fail when the transaction is committed: it is, and never said to be rolled back', async () => {
    const { source, place, numbers, stored } = await open()
    const refused = Object.assign(new Error('no'), { code: 'SQLITE_CONSTRAINT' })
    source.subscribers.push({
      afterTransactionCommit: () => {
        throw refused
      },
    })
    const running = place(1)
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN', cause: refused })
    source.subscribers.pop()
    expect([await numbers(), await stored()]).toEqual([[1], ['e1']])
  })
})

describe('the one connection of SQLite', () => {
  it('has a transaction of the application: ours waits, and is not lost with it', async () => {
    const { source, insert, place, numbers, stored } = await open()
    const { pass, passed } = gate()
    const own = source.transaction(async (manager) => {
      await insert(manager, 1)
      await passed
      throw new Error('no')
    })
    const ours = place(2)
    pass()
    await expect(own).rejects.toThrow('no')
    await ours
    expect([await numbers(), await stored()]).toEqual([[2], ['e2']])
  })

  it('has ours, and the application begins one that ends later: ours is not committed before', async () => {
    const { source, outbox, insert, numbers, stored } = await open()
    const [begun, written, end] = [gate(), gate(), gate()]
    const ours = outbox.transaction(async (manager) => {
      await insert(manager, 1)
      await outbox.publish(manager, event('e1'))
      begun.pass()
      await written.passed
    })
    await begun.passed
    const own = source.transaction(async (manager) => {
      await insert(manager, 2)
      written.pass()
      await end.passed
      throw new Error('no')
    })
    // Long enough for a commit that waits for nothing.
    const first = await Promise.race([ours.then(() => 'ours'), turns(50).then(() => 'neither')])
    expect(first).toBe('neither')
    end.pass()
    await expect(own).rejects.toThrow('no')
    await ours
    expect([await numbers(), await stored()]).toEqual([[1], ['e1']])
  })

  it('is waited for by the clients of all outboxes', async () => {
    const { source, outbox, insert, place, numbers } = await open()
    const second = outbox.via(typeormTransactions(source))
    const { pass, passed } = gate()
    const undone = second.transaction(async (manager) => {
      await insert(manager, 1)
      await passed
      throw new Error('no')
    })
    const kept = place(2)
    pass()
    await expect(undone).rejects.toThrow('no')
    await kept
    expect(await numbers()).toEqual([2])
  })

  it('is not waited for inside of a transaction on it: that would never end', async () => {
    const { source, outbox, insert, place, numbers, stored } = await open()
    const second = outbox.via(typeormTransactions(source))
    const busy = { code: 'POSTHASTE_STORE_BUSY', message: expect.stringContaining('inside of another one') }
    let late: Promise<unknown> = Promise.resolve()
    const { pass, passed } = gate()
    await outbox.transaction(async () => {
      await expect(second.transaction(async () => undefined)).rejects.toMatchObject(busy)
      // What goes on after the end is no part of it any more.
      late = passed.then(() => second.transaction((manager) => insert(manager, 1)))
    })
    pass()
    await late
    await place(2)
    expect([await numbers(), await stored()]).toEqual([[1, 2], ['e2']])
  })
})
