/** A publish that nobody waits for goes to the server together with COMMIT, or in front of what the application says next. */
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { createOutbox, type Draft, type Outbox } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { RoundTrips } from '../clients/round-trips.ts'
import { startProxy } from '../databases/proxy.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'
import { until } from './until.ts'

const ID = '01900000-0000-7000-8000-000000000001'
const draft = (over: Partial<Draft> = {}): Draft => ({ type: 'a', payload: 1, ...over })

let world: World
const sent: string[] = []
const trips = new RoundTrips()

/** What the application and the outbox said, in order. */
const spoken = (): string[] => sent.map((sql) => (/^[A-Z]+$/.test(sql) ? sql : 'the event'))

/** What the store is told beside, and what it does when it hears of a statement. */
const heard = { do: (_sql: string): void => undefined }

/** Behind something that counts, with one connection, so that what is left behind on it is found. */
const open = async (options: pg.PoolConfig = {}) => {
  const proxy = await startProxy(world.url)
  proxy.onSent((connection, data) => trips.sent(connection, data))
  const pool = new pg.Pool({ connectionString: proxy.url, max: 1, ...options })
  // What the tests break.
  pool.on('error', () => undefined)
  const store = postgresStore({
    pool,
    schema: world.schema,
    poolSize: 2,
    onStatement: (sql) => {
      sent.push(sql)
      heard.do(sql)
    },
  })
  const outbox = createOutbox({ store, serve: [] })
  onTestFinished(async () => {
    await outbox.close()
    await pool.end()
    await proxy[Symbol.asyncDispose]()
  })
  await outbox.start()
  sent.length = 0
  return { pool, outbox, proxy }
}

type Opened = Outbox<pg.PoolClient>

const stored = async (): Promise<number> =>
  (await world.hand.query(`SELECT count(*)::int AS n FROM "${world.schema}".events`)).rows[0].n

const rows = async (): Promise<number> =>
  (await world.hand.query(`SELECT count(*)::int AS n FROM "${world.schema}".things`)).rows[0].n

const write = (tx: pg.PoolClient, n = 1): Promise<unknown> =>
  tx.query(`INSERT INTO "${world.schema}".things VALUES ($1)`, [n])

/** The connection was given back as it should be. */
const worksAgain = async (outbox: Opened): Promise<void> => {
  const before = await stored()
  await outbox.transaction((tx) => outbox.publish(tx, draft()))
  expect(await stored()).toBe(before + 1)
}

beforeEach(async () => {
  heard.do = () => undefined
  world = await createWorld(newPostgresUrl())
  await world.hand.query(`CREATE TABLE "${world.schema}".things (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)`)
})

afterEach(() => world.close())

describe('a publish at the end of a transaction', () => {
  it.each([1, 3])('costs no round trip (%i at once)', async (count) => {
    const { outbox } = await open()
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
    const proxy = await startProxy(world.url)
    const counted = new RoundTrips()
    proxy.onSent((connection, data) => counted.sent(connection, data))
    const pool = new pg.Pool({ connectionString: proxy.url, max: 1 })
    const outbox = createOutbox({
      store: postgresStore({ pool, schema: world.schema, prepare: false }),
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
      expect(spoken()).toEqual(['BEGIN'])
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
    expect(spoken()).toEqual(['BEGIN', 'ROLLBACK'])
    await worksAgain(outbox)
  })

  it('keeps the order of several', async () => {
    const { outbox } = await open()
    const ids = await outbox.transaction(async (tx) => [
      ...(await Promise.all([1, 2, 3].map(() => outbox.publish(tx, draft())))),
      await outbox.publish(tx, draft()),
    ])
    const { rows: found } = await world.hand.query(`SELECT id FROM "${world.schema}".events ORDER BY seq`)
    expect(found.map(({ id }) => id)).toEqual(ids)
  })

  it('stays in front of what is said while nobody awaits it', async () => {
    const { outbox } = await open()
    await outbox.transaction(async (tx) => {
      const publishing = outbox.publish(tx, draft())
      const { rows: found } = await tx.query(`SELECT count(*)::int AS n FROM "${world.schema}".events`)
      expect(found[0].n).toBe(1)
      await publishing
    })
  })

  it('is seen by what the application says next, however it says it', async () => {
    const { outbox } = await open()
    const count = `SELECT count(*)::int AS n FROM "${world.schema}".events`
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
    const { rows: found } = await world.hand.query(`SELECT id FROM "${world.schema}".events`)
    expect(found).toEqual([{ id: kept }])
    await worksAgain(outbox)
  })
})

describe('a publish that the server refuses', () => {
  const twice = async (): Promise<Awaited<ReturnType<typeof open>>> => {
    const opened = await open()
    await opened.outbox.transaction((tx) => opened.outbox.publish(tx, draft({ id: ID })))
    return opened
  }
  const refused = { name: 'StoreError', detail: { sqlState: '23505' } }

  it('ends the transaction with its own error when that is committed', async () => {
    const { outbox } = await twice()
    const failing = outbox.transaction(async (tx) => {
      await write(tx)
      await outbox.publish(tx, draft({ id: ID }))
    })
    await expect(failing).rejects.toMatchObject(refused)
    expect([await rows(), await stored()]).toEqual([0, 1])
    await worksAgain(outbox)
  })

  it('is the error of the statement behind it, and of the transaction even if nobody listens', async () => {
    const { outbox } = await twice()
    const heard: unknown[] = []
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ id: ID }))
      await write(tx).catch((error: unknown) => heard.push(error))
    })
    await expect(failing).rejects.toMatchObject(refused)
    expect(heard).toMatchObject([refused])
    expect([await rows(), await stored()]).toEqual([0, 1])
    await worksAgain(outbox)
  })

  it('is the error of the publish behind it', async () => {
    const { outbox } = await twice()
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ id: ID }))
      await outbox.publish(tx, draft())
    })
    await expect(failing).rejects.toMatchObject(refused)
    expect(await stored()).toBe(1)
  })

  it('in a nested transaction ends that, and not the outer one', async () => {
    const { outbox } = await twice()
    await outbox.transaction(async (tx) => {
      await write(tx)
      const nested = outbox.transaction((inner) => outbox.publish(inner, draft({ id: ID })))
      await expect(nested).rejects.toMatchObject(refused)
      await outbox.publish(tx, draft())
    })
    expect([await rows(), await stored()]).toEqual([1, 2])
  })

  it('before a nested one keeps it from beginning', async () => {
    const { outbox } = await twice()
    let began = false
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ id: ID }))
      await outbox
        .transaction(async () => {
          began = true
        })
        .catch(() => undefined)
    })
    await expect(failing).rejects.toMatchObject(refused)
    expect(began).toBe(false)
    await worksAgain(outbox)
  })

  it('does so while nobody awaits what was sent behind it, and the outer one goes on', async () => {
    const { outbox } = await twice()
    await outbox.transaction(async (tx) => {
      const nested = outbox.transaction(async (inner) => {
        await outbox.publish(inner, draft({ id: ID }))
        // It takes the event along, and nobody waits for either.
        write(inner).catch(() => undefined)
        throw new Error('not this')
      })
      await expect(nested).rejects.toThrow('not this')
      await outbox.publish(tx, draft())
    })
    expect([await rows(), await stored()]).toEqual([0, 2])
  })

  it('is why a nested one does not begin, also when it was sent before', async () => {
    const { outbox } = await twice()
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft({ id: ID }))
      write(tx).catch(() => undefined)
      await outbox.transaction(() => undefined)
    })
    await expect(failing).rejects.toMatchObject(refused)
    await worksAgain(outbox)
  })

  it('on its first use of a connection leaves that as it should be', async () => {
    const { outbox } = await open()
    await world.hand.query(
      `ALTER TABLE "${world.schema}".events ADD CONSTRAINT no_such CHECK (type <> 'refused')`,
    )
    const failing = outbox.transaction((tx) => outbox.publish(tx, draft({ type: 'refused' })))
    await expect(failing).rejects.toMatchObject({ name: 'StoreError', detail: { sqlState: '23514' } })
    await worksAgain(outbox)
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft())
      await write(tx)
    })
    expect(await stored()).toBe(2)
  })

  it('because the transaction had failed before says that', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      await tx.query('SELECT 1/0').catch(() => undefined)
      await outbox.publish(tx, draft())
    })
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await stored()).toBe(0)
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
    proxy.cutAt('COMMIT', when)
    const failing = outbox.transaction((tx) => outbox.publish(tx, draft()))
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
    await worksAgain(outbox)
  })

  it('is not sent on a connection that is known to be lost', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      const { rows: found } = await tx.query('SELECT pg_backend_pid() AS pid')
      const lost = new Promise((resolve) => tx.once('error', resolve))
      await world.hand.query('SELECT pg_terminate_backend($1)', [found[0].pid])
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
