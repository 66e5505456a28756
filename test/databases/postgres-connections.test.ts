/** Connections that end, or fall silent. */
import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { newPostgresUrl } from '../stores/servers.ts'
import { testContext } from '../stores/sqlite-files.ts'
import { PostgresWorld, publishTick, tick } from './postgres-world.ts'
import { startProxy } from './proxy.ts'
import { codesOf, judge, OUTAGE_CODES, startTraffic, WELL } from './traffic.ts'

/** Longer than a busy machine takes for a statement, or for a new connection. */
const SHORT = { queryTimeoutMs: 5_000 }

let world: PostgresWorld

beforeEach(async () => {
  world = new PostgresWorld(newPostgresUrl())
  await world.migrate()
})

afterEach(() => world[Symbol.asyncDispose]())

describe('connections that end under load', () => {
  it('[38] all at once, again and again: no crash, nothing lost or invented, order kept', async () => {
    const name = `application_name=${world.schema}`
    const outbox = world.listen(world.outbox({ url: `${world.url}?${name}`, hotLeaseMs: 2_000 }))
    await outbox.start()
    const traffic = await startTraffic(world, outbox)
    let ended = 0
    for (let round = 0; round < 5; round += 1) {
      await traffic.commits(60)
      const killed = await world.rows(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1',
        [world.schema],
      )
      ended += killed.length
    }
    await traffic.commits(60)
    await traffic.stop()
    expect(await judge(world, traffic)).toEqual({ ...WELL, duplicates: 0 })
    expect(ended).toBeGreaterThan(10)
    expect(OUTAGE_CODES).toEqual(expect.arrayContaining(codesOf(traffic.errors)))
  })

  it('[38] cut by the network, again and again: the same', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.listen(world.outbox({ url: proxy.url, hotLeaseMs: 2_000 }))
    await outbox.start()
    const traffic = await startTraffic(world, outbox)
    for (let round = 0; round < 5; round += 1) {
      await traffic.commits(60)
      proxy.cut()
    }
    await traffic.commits(60)
    await traffic.stop()
    expect(await judge(world, traffic)).toEqual({ ...WELL, duplicates: 0 })
    expect(traffic.failures).toBeGreaterThan(0)
    expect(OUTAGE_CODES).toEqual(expect.arrayContaining(codesOf(traffic.errors)))
    await outbox.close()
  })

  it('[38] one that ends while its transaction is idle does not end the process', async () => {
    const outbox = world.listen(world.outbox())
    await outbox.start()
    const running = outbox.transaction(async (tx) => {
      const { rows } = await tx.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      // Its last words may come with the answer to this, or right behind it: then COMMIT would be on its way already.
      const heard = new Promise((resolve) => (tx as unknown as EventEmitter).once('end', resolve))
      await world.rows('SELECT pg_terminate_backend($1, 5000)', [rows[0]?.pid])
      await heard
      await outbox.publish(tx, tick(1))
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    await publishTick(outbox, 2)
    await world.drained()
    expect(world.numbers).toEqual([2])
  })
})

/** What the server says last to a connection that it ends. */
const FATAL = (() => {
  const fields = Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0')
  const head = Buffer.from('E....')
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
})()

describe('a transaction of the store itself', () => {
  it('[41] that is cut off before its COMMIT is begun anew', async () => {
    await using proxy = await startProxy(world.url)
    await using fresh = new PostgresWorld(world.url)
    const outbox = fresh.outbox({ url: proxy.url })
    const cut = proxy.cutAt('CREATE TABLE', 'before')
    const { current, latest } = await outbox.schema.migrate()
    await cut
    expect(current).toBe(latest)
    expect(fresh.statements.filter((sql) => sql === 'COMMIT')).toHaveLength(1)
    await outbox.close()
  })

  it('[41] that is cut off while the store is closed fails with what cut it off', async () => {
    await using proxy = await startProxy(world.url)
    await using fresh = new PostgresWorld(world.url)
    const closed: Promise<void>[] = []
    const store = fresh.store({
      connectionString: proxy.url,
      onStatement: (sql) => {
        if (!sql.includes('CREATE TABLE')) return
        closed.push(store.close())
        proxy.cut()
      },
    })
    await store.open(testContext())
    await expect(store.schema.migrate()).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
    await Promise.all(closed)
  })

  it('[41] that is cut off at its COMMIT is not: nobody knows whether that happened', async () => {
    await using proxy = await startProxy(world.url)
    await using fresh = new PostgresWorld(world.url)
    const outbox = fresh.outbox({ url: proxy.url })
    // Not the one of READ COMMITTED.
    const cut = proxy.cutAt('COMMIT\0', 'after')
    await expect(outbox.schema.migrate()).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
    await cut
    expect(fresh.statements.filter((sql) => sql === 'COMMIT')).toHaveLength(1)
    const { current, latest } = await outbox.schema.status()
    expect(current).toBe(latest)
    await outbox.close()
  })

  it('[41] nor is one whose connection breaks there in a way that nobody has a name for', async () => {
    await using proxy = await startProxy(world.url)
    await using fresh = new PostgresWorld(world.url)
    const clients: pg.Client[] = []
    const Client = class extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        super(config)
        clients.push(this)
      }
    }
    const pool = new pg.Pool({ connectionString: proxy.url, Client })
    const onStatement = (sql: string): void => void fresh.statements.push(sql)
    const outbox = fresh.outbox({ store: postgresStore({ pool, schema: fresh.schema, onStatement }) })
    const silenced = proxy.silenceAt('COMMIT\0', 'after')
    const migrating = outbox.schema.migrate()
    await silenced
    for (const client of clients) {
      const { connection } = client as unknown as { readonly connection: { readonly stream: Socket } }
      connection.stream.destroy(new Error('something odd'))
    }
    await expect(migrating).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
    expect(fresh.statements.filter((sql) => sql === 'COMMIT')).toHaveLength(1)
    await outbox.close()
    await pool.end()
  })

  it('[41] nor is one at whose COMMIT the server dies, and says so in another language', async () => {
    await using fresh = new PostgresWorld(world.url)
    const lastWords = Object.assign(new Error('konnte nicht schreiben'), { code: '53100', severity: 'PANIK' })
    const Client = class extends pg.Client {
      override query(...args: unknown[]): never {
        const [config, values, callback] = args as [{ text?: string }, unknown, (error: Error) => void]
        const { stream } = (this as unknown as { readonly connection: { readonly stream: Socket } })
          .connection
        const dies = (): void => {
          stream.destroy()
          callback(lastWords)
        }
        return Reflect.apply(super.query, this, [
          config,
          values,
          config.text === 'COMMIT' ? dies : callback,
        ]) as never
      }
    }
    Object.defineProperty(Client.prototype.query, 'length', { value: 3 })
    const pool = new pg.Pool({ connectionString: world.url, Client })
    const onStatement = (sql: string): void => void fresh.statements.push(sql)
    const outbox = fresh.outbox({ store: postgresStore({ pool, schema: fresh.schema, onStatement }) })
    await expect(outbox.schema.migrate()).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
    expect(fresh.statements.filter((sql) => sql === 'COMMIT')).toHaveLength(1)
    await outbox.close()
    await pool.end()
  })
})

it('[38] a connection that ends in the same breath in which it is made does not end the process', async () => {
  let strikes = 0
  const ready = Buffer.from('Z\0\0\0\x05I')
  await using proxy = await startProxy(world.url, (data) => {
    const isMade = data.includes('server_version') && data.subarray(-ready.length).equals(ready)
    if (!isMade || strikes === 0) return data
    strikes -= 1
    return Buffer.concat([data, FATAL])
  })
  const outbox = world.listen(world.outbox({ url: proxy.url }))
  await outbox.start()
  strikes = 1
  // The first transaction makes the first connection of its pool.
  await expect(publishTick(outbox, 1)).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
  expect(strikes).toBe(0)
  await publishTick(outbox, 2)
  await world.drained()
  expect(world.numbers).toEqual([2])
})

describe('connections that fall silent', () => {
  it('[39] time out, are thrown away, and work goes on over new ones', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.listen(world.outbox({ url: proxy.url, hotLeaseMs: 1_000, storeOptions: SHORT }))
    await outbox.start()
    await publishTick(outbox, 1)
    await world.drained()
    // Several at once, so that connections of the store's own are left when the transaction has thrown away one.
    await Promise.all(Array.from({ length: 3 }, () => outbox.inspect.workers()))
    const lines = world.log.length
    proxy.goSilent()
    proxy.pass()
    await expect(publishTick(outbox, 2)).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_UNAVAILABLE',
      transient: true,
    })
    await publishTick(outbox, 3)
    await world.until(() => world.numbers.includes(3))
    await world.drained()
    expect(world.numbers).toEqual([1, 3])
    await world.until(() => world.log.slice(lines).some(({ error }) => error.includes('cannot be reached')))
    // Beside the one of the transaction at least one of the store's own fell silent, whenever it is next tried.
    await world.until(() => proxy.swallowed.size > 1)
    // Others of the pool may be tried, and thrown away, later.
    await world.until(() => !proxy.open.some((one) => proxy.swallowed.has(one)))
    await outbox.close()
  })

  it('[39] under BEGIN and the first statement, are thrown away; a statement that takes long is not in the way', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.outbox({ url: proxy.url, serve: [], storeOptions: { queryTimeoutMs: 2_000 } })
    await outbox.start()
    const ask = (seconds: number): Promise<unknown> =>
      outbox.transaction((tx) => tx.query('SELECT pg_sleep($1)', [seconds]))
    // From the first event on BEGIN travels with the first statement.
    await publishTick(outbox, 1)
    await ask(4)
    expect(world.statements.at(-1)).toBe('COMMIT')
    proxy.goSilent()
    proxy.pass()
    await expect(ask(0)).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    await ask(0)
    await outbox.close()
  })

  it('[39] under BEGIN and values that could not be sent, are thrown away too', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.outbox({ url: proxy.url, serve: [], storeOptions: { queryTimeoutMs: 1_000 } })
    await outbox.start()
    await publishTick(outbox, 1)
    const circle: unknown[] = []
    circle.push({ circle })
    proxy.goSilent()
    proxy.pass()
    const asking = outbox.transaction(async (tx) => {
      await expect(tx.query('SELECT $1::json', [{ circle }])).rejects.toThrow(TypeError)
      await tx.query('SELECT 1')
    })
    await expect(asking).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    await outbox.close()
  })

  it('[39] under BEGIN and a statement that nobody awaited: known not to have happened', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.outbox({ url: proxy.url, serve: [], storeOptions: { queryTimeoutMs: 1_000 } })
    await outbox.start()
    await publishTick(outbox, 1)
    proxy.goSilent()
    proxy.pass()
    const asking = outbox.transaction(async (tx) => {
      tx.query('SELECT $1::int', [1]).catch(() => undefined)
    })
    await expect(asking).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    await outbox.close()
  })

  it('[39] in the middle of a transaction, are thrown away with it', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.listen(world.outbox({ url: proxy.url, storeOptions: SHORT }))
    await outbox.start()
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, tick(1))
      proxy.goSilent()
      proxy.pass()
      await outbox.publish(tx, tick(2))
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    await publishTick(outbox, 3)
    await world.until(() => world.numbers.includes(3))
    await world.until(() => !proxy.open.some((one) => proxy.swallowed.has(one)))
    await outbox.close()
    expect(world.numbers).toEqual([3])
  })

  it('[39] at COMMIT: unknown, and nothing is sent from memory', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.listen(world.outbox({ url: proxy.url, storeOptions: SHORT }))
    await outbox.start()
    const running = outbox.transaction(async (tx) => {
      await tx.query('SELECT 1')
      await outbox.publish(tx, tick(1))
      proxy.goSilent()
      proxy.pass()
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
    await publishTick(outbox, 3)
    await world.until(() => world.numbers.includes(3))
    await outbox.close()
    expect(world.numbers).toEqual([3])
  })

  it('[39] before they are made: a start fails after its time, and a later one works', async () => {
    await using proxy = await startProxy(world.url)
    proxy.goSilent()
    const outbox = world.listen(world.outbox({ url: proxy.url, storeOptions: SHORT }))
    await expect(outbox.start()).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_UNAVAILABLE',
      transient: true,
    })
    proxy.pass()
    await outbox.start()
    await publishTick(outbox, 1)
    await world.until(() => world.numbers.includes(1))
    await outbox.close()
  })
})

describe('the connection that listens', () => {
  it('[35] is lost together with what was said meanwhile: the event is found all the same', async () => {
    await using proxy = await startProxy(world.url)
    const never = { pollIntervalMs: 3_600_000, pollIdleMaxMs: 3_600_000 }
    const worker = world.listen(world.outbox({ url: proxy.url, ...never }))
    const publisher = world.outbox({ serve: [] })
    await worker.start()
    await publisher.start()
    await publishTick(publisher, 1)
    await world.until(() => world.numbers.includes(1))
    proxy.refuse()
    proxy.cut()
    await publishTick(publisher, 2)
    await world.until(() =>
      world.log.some(({ message }) => message.includes('listens for wake-ups was lost')),
    )
    proxy.pass()
    await world.until(() => world.numbers.includes(2))
    await world.drained()
    expect(world.numbers).toEqual([1, 2])
    await worker.close()
  })

  it('[35] is not needed: polling alone delivers', async () => {
    const worker = world.listen(world.outbox({ storeOptions: { listen: false } }))
    const publisher = world.outbox({ serve: [], storeOptions: { listen: false } })
    await worker.start()
    await publisher.start()
    await publishTick(publisher, 1)
    await world.drained()
    expect(world.numbers).toEqual([1])
  })

  it('[34] is in no transaction, so it keeps neither the queue of notifications nor old rows alive', async () => {
    const worker = world.listen(world.outbox())
    await worker.start()
    const listeners = await world.rows(
      "SELECT state, backend_xmin, xact_start FROM pg_stat_activity WHERE query LIKE 'LISTEN %{schema}%'",
    )
    expect(listeners).toEqual([{ state: 'idle', backend_xmin: null, xact_start: null }])
  })
})
