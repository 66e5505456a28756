/** A publish that nobody waits for goes to the server together with COMMIT, or in front of what the application says next. */
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { RoundTrips } from '../clients/round-trips.ts'
import { startProxy } from '../databases/proxy.ts'
import { until } from './until.ts'
import {
  draft,
  heard,
  here,
  open,
  rows,
  sent,
  setUp,
  spoken,
  stored,
  worksAgain,
  write,
} from './with-commit-words.ts'

setUp()

describe('a publish at the end of a transaction', () => {
  it.each([1, 3])('costs no round trip (%i at once)', async (count) => {
    const { outbox, trips } = await open()
    const business = (tx: pg.PoolClient) => write(tx, sent.length)
    const both = async (tx: pg.PoolClient): Promise<void> => {
      await business(tx)
      await outbox.publishMany(
        tx,
        Array.from({ length: count }, () => draft()),
      )
    }
    await outbox.transaction(both)
    const without = await trips.during(() => outbox.transaction(business))
    expect(await trips.during(() => outbox.transaction(both))).toBe(without)
    expect(await stored()).toBe(2 * count)
  })

  it('costs none with a connection that prepares nothing', async () => {
    const proxy = await startProxy(here.world.url)
    const counted = new RoundTrips()
    proxy.onSent((connection, data) => counted.sent(connection, data))
    const pool = new pg.Pool({ connectionString: proxy.url, max: 1 })
    const outbox = createOutbox({
      store: postgresStore({ pool, schema: here.world.schema, prepare: false }),
      serve: [],
    })
    onTestFinished(async () => {
      await outbox.close()
      await pool.end()
      await proxy[Symbol.asyncDispose]()
    })
    await outbox.start()
    const once = (): Promise<unknown> => outbox.transaction((tx) => outbox.publish(tx, draft()))
    await once()
    expect(await counted.during(once)).toBe(2)
    expect(await stored()).toBe(2)
  })

  it('waits for an answer where one is needed: with an idempotency key', async () => {
    const { outbox } = await open()
    const publish = (): Promise<readonly string[]> =>
      outbox.transaction(async (tx) => [
        await outbox.publish(tx, draft({ idempotencyKey: 'k' })),
        await outbox.publish(tx, draft({ idempotencyKey: 'k' })),
      ])
    const [first, second] = await publish()
    expect(second).toBe(first)
    expect(await publish()).toEqual([first, first])
  })

  it('is sent at once when it is large', async () => {
    const { outbox } = await open()
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ payload: 'x'.repeat(70_000) }))
      expect(spoken()).toEqual(['BEGIN', 'the event'])
    })
    expect(await stored()).toBe(1)
  })

  it('is sent after a moment when nothing follows: its claim is counted from its statement on', async () => {
    const { outbox } = await open()
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft())
      expect(spoken()).toEqual([])
      await until('it is sent', async () => sent.length === 2)
    })
    expect(spoken()).toEqual(['BEGIN', 'the event', 'COMMIT'])
    expect(await stored()).toBe(1)
  })

  it('is not sent at all when the transaction is rolled back', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft())
      throw new Error('changed my mind')
    })
    await expect(failing).rejects.toThrow('changed my mind')
    expect(spoken()).toEqual([])
    await worksAgain(outbox)
  })

  it('keeps the order of several', async () => {
    const { outbox } = await open()
    const ids = await outbox.transaction(async (tx) => [
      ...(await Promise.all([1, 2, 3].map(() => outbox.publish(tx, draft())))),
      await outbox.publish(tx, draft()),
    ])
    const { rows: found } = await here.world.hand.query(
      `SELECT id FROM "${here.world.schema}".events ORDER BY seq`,
    )
    expect(found.map(({ id }) => id)).toEqual(ids)
  })

  it('stays in front of what is said while nobody awaits it', async () => {
    const { outbox } = await open()
    await outbox.transaction(async (tx) => {
      const publishing = outbox.publish(tx, draft())
      const { rows: found } = await tx.query(`SELECT count(*)::int AS n FROM "${here.world.schema}".events`)
      expect(found[0].n).toBe(1)
      await publishing
    })
  })

  it('is seen by what the application says next, however it says it', async () => {
    const { outbox } = await open()
    const count = `SELECT count(*)::int AS n FROM "${here.world.schema}".events`
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft())
      expect((await tx.query(count)).rows[0].n).toBe(1)
      await outbox.publish(tx, draft())
      const called = await new Promise<pg.QueryResult>((resolve, reject) => {
        tx.query(count, (error: Error | null, answer: pg.QueryResult) =>
          error ? reject(error) : resolve(answer),
        )
      })
      expect(called.rows[0].n).toBe(2)
    })
  })

  it('is not undone with a savepoint that came after it, and is with its own', async () => {
    const { outbox } = await open()
    const kept = await outbox.transaction(async (tx) => {
      const id = await outbox.publish(tx, draft())
      const nested = outbox.transaction(async (inner) => {
        await outbox.publish(inner, draft())
        throw new Error('not this')
      })
      await expect(nested).rejects.toThrow('not this')
      return id
    })
    const { rows: found } = await here.world.hand.query(`SELECT id FROM "${here.world.schema}".events`)
    expect(found).toEqual([{ id: kept }])
    await worksAgain(outbox)
  })
})

describe('a COMMIT behind a publish', () => {
  it('that the server refuses rolls both back', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      await write(tx, 1)
      await write(tx, 1)
      await outbox.publish(tx, draft())
    })
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect([await rows(), await stored()]).toEqual([0, 0])
    await worksAgain(outbox)
  })

  it.each(['before', 'after'] as const)('that is cut off %s it arrives: nobody knows', async (when) => {
    const { outbox, proxy } = await open()
    await worksAgain(outbox)
    const before = await stored()
    const cut = proxy.cutAt('COMMIT', when)
    const failing = outbox.transaction((tx) => outbox.publish(tx, draft()))
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
    await cut
    expect((await stored()) - before).toBe(when === 'after' ? 1 : 0)
    await worksAgain(outbox)
  })

  it('is not sent on a connection that is known to be lost', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      const { rows: found } = await tx.query('SELECT pg_backend_pid() AS pid')
      const lost = new Promise((resolve) => tx.once('error', resolve))
      await here.world.hand.query('SELECT pg_terminate_backend($1)', [found[0].pid])
      await lost
      await outbox.publish(tx, draft())
    })
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    expect(await stored()).toBe(0)
    await worksAgain(outbox)
  })

  it('is not sent on a connection that the application has ended', async () => {
    const { outbox, pool } = await open()
    const clients: pg.PoolClient[] = []
    pool.on('connect', (client) => clients.push(client))
    pool.on('acquire', (client) => clients.push(client))
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft())
      void (clients.at(-1) as unknown as pg.Client).end()
    })
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
    expect(await stored()).toBe(0)
    await worksAgain(outbox)
  })

  it('that was never sent leaves no transaction behind on its connection', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      await write(tx)
      await outbox.publish(tx, draft())
      heard.do = () => {
        throw new Error('a listener that fails')
      }
    })
    await expect(failing).rejects.toThrow('a listener that fails')
    heard.do = () => undefined
    await worksAgain(outbox)
    expect(await rows()).toBe(0)
  })

  it('comes to an end when what is around the client fails', async () => {
    const { outbox, pool } = await open()
    pool.on('acquire', (client) => {
      const { query } = client
      const around = (async (one: { submit?: unknown }, values: unknown, callback: unknown) => {
        if (typeof one.submit === 'function') throw new Error('the wrapper fails')
        return (query as (...args: unknown[]) => unknown).call(client, one, values, callback)
      }) as unknown as typeof query
      client.query = around
    })
    const failing = outbox.transaction((tx) => outbox.publish(tx, draft()))
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
    expect(await stored()).toBe(0)
  })

  it('goes its own way on a connection that pipelines', async () => {
    const { outbox } = await open({ pipeline: true } as pg.PoolConfig)
    await outbox.transaction(async (tx) => {
      await write(tx)
      await outbox.publish(tx, draft())
      expect(spoken()).toEqual(['BEGIN', 'the event'])
    })
    expect([await rows(), await stored()]).toEqual([1, 1])
  })
})
