/** LISTEN and NOTIFY between two stores, over a connection that may be lost, and not through a pooler. */
import { type AddressInfo, connect, createServer } from 'node:net'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { startProxy } from '../databases/proxy.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl, pgbouncerUrl } from './servers.ts'
import { type LogLine, testContext } from './sqlite-files.ts'
import { until } from './until.ts'

let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl())
})

afterEach(() => world.close())

/** What was heard, and a way to wait for it. */
const ears = () => {
  const heard: (readonly string[])[] = []
  return {
    heard,
    wake: (destinations: readonly string[]): void => {
      heard.push(destinations)
    },
    until: (count: number) => until(`${count} wake-ups`, async () => heard.length >= count),
  }
}

const listeners = async (): Promise<number[]> => {
  const { rows } = await world.hand.query(
    "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN \"posthaste_' || $1 || '%'",
    [world.schema],
  )
  return rows.map((row) => row.pid)
}

describe('wake-ups', () => {
  it('reach another process with the names of the destinations', async () => {
    const other = await world.harness.reopen!()
    const { heard, wake, until } = ears()
    const stop = await other.wakeup!.listen(wake)
    await world.harness.store.wakeup!.notify(['alpha', "o'ne\\"])
    await world.harness.store.wakeup!.notify([])
    await until(2)
    expect(heard).toEqual([['alpha', "o'ne\\"], []])
    await stop()
    expect(await listeners()).toEqual([])
  })

  it('are not heard by the one who sent them', async () => {
    const other = await world.harness.reopen!()
    const { heard, wake, until } = ears()
    const stop = await world.harness.store.wakeup!.listen(wake)
    await world.harness.store.wakeup!.notify(['mine'])
    await other.wakeup!.notify(['theirs'])
    await until(1)
    expect(heard).toEqual([['theirs']])
    await stop()
  })

  it('with too many names are for all', async () => {
    const other = await world.harness.reopen!()
    const { heard, wake, until } = ears()
    const stop = await other.wakeup!.listen(wake)
    await world.harness.store.wakeup!.notify(
      Array.from({ length: 500 }, (_, i) => `destination-${i}`.repeat(3)),
    )
    await until(1)
    expect(heard).toEqual([[]])
    await stop()
  })

  it('go on after the connection was lost, beginning with one for all', async () => {
    const other = await world.harness.reopen!()
    const { heard, wake, until } = ears()
    const stop = await other.wakeup!.listen(wake)
    const [pid] = await listeners()
    await world.hand.query('SELECT pg_terminate_backend($1)', [pid])
    await until(1)
    expect(heard).toEqual([[]])
    await world.harness.store.wakeup!.notify(['alpha'])
    await until(2)
    expect(heard[1]).toEqual(['alpha'])
    await stop()
    expect(await listeners()).toEqual([])
  })

  it('are absent when the store does not listen', () => {
    expect(postgresStore({ connectionString: world.url, listen: false }).wakeup).toBeUndefined()
  })

  it('are not asked for through a pooler, and a warning says how to get them', async () => {
    const lines: LogLine[] = []
    const store = postgresStore({ connectionString: pgbouncerUrl(), schema: world.schema })
    await store.open(testContext(lines))
    const stop = await store.wakeup!.listen(() => undefined)
    expect(lines.filter(({ message }) => message.includes('direct connection')).length).toBe(1)
    await stop()
    await store.close()
  })

  it('do not keep a start waiting for a server that takes the connection and says nothing', async () => {
    let silent = false
    const proxy = createServer((socket) => {
      if (silent) return
      const { hostname, port } = new URL(world.url)
      socket.pipe(connect(Number(port), hostname)).pipe(socket)
    })
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const url = new URL(world.url)
    url.host = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
    const pool = new pg.Pool({ connectionString: url.href })
    const store = postgresStore({ pool, schema: world.schema, queryTimeoutMs: 5_000 })
    const lines: LogLine[] = []
    await store.open(testContext(lines))
    silent = true
    const stop = await store.wakeup!.listen(() => undefined)
    expect(lines.map(({ message }) => message).join()).toContain('listens for wake-ups was lost')
    await stop()
    await store.close()
    await pool.end()
    proxy.close()
  })

  it('[39] do not keep a close waiting for a connection that fell silent', async () => {
    await using proxy = await startProxy(world.url)
    const store = postgresStore({ connectionString: proxy.url, schema: world.schema })
    await store.open(testContext())
    const stop = await store.wakeup!.listen(() => undefined)
    proxy.goSilent()
    await stop()
    await store.close()
  })

  it('do not need a server that is there', async () => {
    const lines: LogLine[] = []
    const nowhere = { connectionString: 'postgres://127.0.0.1:1/x' }
    const store = postgresStore({ connectionString: world.url, schema: world.schema, listen: nowhere })
    await store.open(testContext(lines))
    const stop = await store.wakeup!.listen(() => undefined)
    expect(lines.map(({ level }) => level)).toEqual(['warn'])
    await stop()
    await store.close()
  })
})
