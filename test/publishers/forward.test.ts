import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { type ForwardTarget, forwardPublisher } from '../../src/publishers/forward.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { storeErrorOf } from '../../src/stores/mysql/errors.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'
import { refusing } from './places/forward.ts'
import { testPublisher } from './run.ts'

testPublisher('forward')

describe('forwarding in particular', () => {
  it('one that the other database refuses fails alone, and spends nobody else an attempt', async () => {
    const to = createOutbox({
      store: memoryStore(),
      destinations: { elsewhere: { events: ['*'] } },
      serve: [],
    })
    await to.start()
    onTestFinished(() => to.close())
    const t = new PublisherFixture({ topic: 'unused' } as never)
    const deliveries = [t.delivery(), t.delivery(), t.delivery()]
    const taken = deliveries[1]?.event.id as string
    // Somebody has published another event under this id there.
    await to.transaction((tx) => to.publish(tx, { id: taken, type: 'order.placed', payload: 1 }))
    const results = await t.send(forwardPublisher({ to }), deliveries)
    expect(results.map((result) => t.verdict(result))).toEqual(['done', 'retry', 'done'])
  })

  it.each([
    ['with the batch', 1],
    ['with one of it alone, after the batch was refused', 2],
  ])('to a database that hangs is an outage, and spends no attempt: %s', async (_, hangsAt) => {
    const t = new PublisherFixture({ topic: 'unused' } as never)
    const stop = new AbortController()
    let transactions = 0
    const publisher = forwardPublisher({
      to: {
        transaction: async () => {
          transactions += 1
          if (transactions < hangsAt) throw new Error('one of them is refused')
          // As the core does it when the time is over.
          stop.abort(new Error('the delivery did not end in time'))
          return await new Promise<never>(() => undefined)
        },
        publishMany: async () => [],
      },
    })
    const results = await publisher.send([t.delivery(), t.delivery()], { signal: stop.signal })
    expect(results.map((result) => t.verdict(result))).toEqual(['outage', 'outage'])
    expect(transactions).toBe(hangsAt)
  })
  const verdictsOf = async <Tx>(to: ForwardTarget<Tx>): Promise<string[]> => {
    const t = new PublisherFixture({ topic: 'unused' } as never)
    const results = await t.send(forwardPublisher({ to }), [t.delivery(), t.delivery()])
    return results.map((result) => t.verdict(result))
  }

  it.each([
    ['the password is refused', '28P01', 'outage'],
    ['the database is not there', '3D000', 'outage'],
    ['the tables are not there', '42P01', 'outage'],
    ['a right is missing', '42501', 'outage'],
    ['it is a standby', '25006', 'outage'],
    ['the row is refused', '23505', 'retry'],
    ['what is in the row is refused', '22P05', 'retry'],
  ])('where %s (%s), the verdict is %s', async (_, code, verdict) => {
    expect(await verdictsOf(refusing(code))).toEqual([verdict, verdict])
  })

  it.each([
    ['the password is refused', 1045, 'outage'],
    ['the database is not there', 1049, 'outage'],
    ['the tables are not there', 1146, 'outage'],
    ['a right is missing', 1142, 'outage'],
    ['it is larger than a packet', 1153, 'retry'],
    ['the row is refused', 1062, 'retry'],
    ['nobody knows why', 9999, 'retry'],
  ])('where %s (%s of MySQL), the verdict is %s', async (_, errno, verdict) => {
    const error = Object.assign(new Error('it is refused'), { errno, sqlState: 'HY000' })
    const to = { ...refusing('unused'), transaction: () => Promise.reject(storeErrorOf(error, 'MySQL')) }
    expect(await verdictsOf(to)).toEqual([verdict, verdict])
  })

  it('to an outbox that is closed, or whose tables are not there, spends no attempt', async () => {
    const closed = createOutbox({ store: memoryStore(), serve: [] })
    await closed.start()
    await closed.close()
    expect(await verdictsOf(closed)).toEqual(['outage', 'outage'])
    const folder = mkdtempSync(join(tmpdir(), 'posthaste-forward-'))
    const store = sqliteStore({ file: join(folder, 'empty.db') })
    const empty = createOutbox({ store, migrate: false, serve: [] })
    onTestFinished(async () => {
      await empty.close()
      rmSync(folder, { recursive: true })
    })
    expect(await verdictsOf(empty)).toEqual(['outage', 'outage'])
  })
})
