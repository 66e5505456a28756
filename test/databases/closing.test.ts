/** A close while transactions of the application are under way, and over connections that fell silent. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createOutbox, type Outbox, type Store } from '../../src/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { gate, publishAndWait } from '../journeys/world.ts'
import { dropTables, newPrefix } from '../stores/mysql-harness.ts'
import { newSchema } from '../stores/postgres-harness.ts'
import { serverUrl } from '../stores/servers.ts'
import { until } from '../stores/until.ts'
import { startProxy } from './proxy.ts'

const KINDS = ['postgres-new', 'mariadb'] as const
type Kind = (typeof KINDS)[number]

const PROCESS = fileURLToPath(new URL('./closing-process.ts', import.meta.url))
const TICK = { type: 'tick', payload: 1 }
/** Longer than a busy machine takes for a statement. */
const TIMEOUT_MS = 5_000

interface AnyHandle {
  query(sql: string): Promise<unknown>
}

type AnyStore = Store<AnyHandle, unknown>

const storeOn = (kind: Kind, name: string, where: object, poolSize = 4): AnyStore => {
  const given = { ...where, ...('pool' in where ? {} : { poolSize }), queryTimeoutMs: TIMEOUT_MS }
  return (kind === 'mariadb'
    ? mysqlStore({ ...given, prefix: name } as never)
    : postgresStore({ ...given, schema: name } as never)) as unknown as AnyStore
}

const open = (store: AnyStore): Outbox<AnyHandle> =>
  createOutbox({ store, destinations: { sink: { events: ['*'] } }, serve: [], drainMs: 60_000 })

/** Tables of their own, and an outbox that looks at them. */
const newTables = async (kind: Kind) => {
  const name = kind === 'mariadb' ? newPrefix() : newSchema()
  if (kind === 'mariadb') onTestFinished(() => dropTables(kind, name))
  const other = open(storeOn(kind, name, { connectionString: serverUrl(kind) }))
  onTestFinished(() => other.close())
  await other.schema.migrate()
  return { name, other }
}

const poolOf = (kind: Kind) =>
  kind === 'mariadb'
    ? mysql.createPool(serverUrl(kind))
    : new pg.Pool({ connectionString: serverUrl(kind), max: 4 })

describe.each(KINDS)('a close on %s', (kind) => {
  it.each(['an address', 'a pool'])('lets transactions under way commit, with %s', async (how) => {
    const { name, other } = await newTables(kind)
    const pool = how === 'a pool' ? poolOf(kind) : null
    const outbox = open(storeOn(kind, name, pool === null ? { connectionString: serverUrl(kind) } : { pool }))
    const { committed, commit } = await publishAndWait(outbox, TICK)
    const closing = outbox.close()
    const another = () => outbox.transaction(() => 'begun').catch(({ code }) => code as string)
    await expect.poll(another).toBe('POSTHASTE_CLOSED')
    commit()
    const id = await committed
    await closing
    await pool?.end()
    expect(await other.inspect.event(id)).not.toBeNull()
  })

  it('gives back what was claimed for this process and is committed only now', async () => {
    const { name } = await newTables(kind)
    // Nobody else would have it before the test is over.
    const serving = { drainMs: 60_000, hotLeaseMs: 600_000 }
    const create = () =>
      createOutbox({ store: storeOn(kind, name, { connectionString: serverUrl(kind) }), ...serving })
    const [outbox, next] = [create(), create()]
    outbox.on('tick', () => undefined)
    await outbox.start()
    const { committed, commit } = await publishAndWait(outbox, TICK)
    const closing = outbox.close()
    await expect.poll(() => outbox.isStarted).toBe(false)
    commit()
    const id = await committed
    await closing
    const heard = gate<string>()
    next.on('tick', (event) => heard.open(event.id))
    onTestFinished(() => next.close())
    await next.start()
    expect(await heard.promise).toBe(id)
  })

  it('lets one commit that waits for a connection, and one roll back', async () => {
    const { name, other } = await newTables(kind)
    const outbox = open(
      storeOn(kind, name, { connectionString: serverUrl(kind) }, kind === 'mariadb' ? 1 : 2),
    )
    const [begun, end] = [gate(), gate()]
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, TICK)
      begun.open()
      await end.promise
      throw new Error('no order')
    })
    const rejected = expect(failing).rejects.toThrow('no order')
    await begun.promise
    const waiting = outbox.transaction((tx) => outbox.publish(tx, TICK))
    const closing = outbox.close()
    end.open()
    await rejected
    const id = await waiting
    await closing
    const { deliveries } = await other.inspect.list({ limit: 10 })
    expect(deliveries.map(({ eventId }) => eventId)).toEqual([id])
  })

  it('of the store alone cuts off a transaction that does not end: nothing of it is stored', async () => {
    const { name, other } = await newTables(kind)
    const store = storeOn(kind, name, { connectionString: serverUrl(kind) })
    const outbox = open(store)
    const { committed, commit } = await publishAndWait(outbox, TICK)
    await store.close()
    const rejected = expect(committed).rejects.toMatchObject({ code: expect.stringContaining('POSTHASTE_') })
    commit()
    await rejected
    await outbox.close()
    expect((await other.inspect.list({ limit: 10 })).deliveries).toEqual([])
  })

  it('[39] tells whoever waits for a statement of its own over a connection that fell silent', async () => {
    const { name } = await newTables(kind)
    await using proxy = await startProxy(serverUrl(kind))
    const store = storeOn(kind, name, { connectionString: proxy.url })
    const outbox = open(store)
    const running = outbox.transaction(async (tx) => {
      proxy.goSilent()
      await tx.query('SELECT 1')
    })
    const rejected = expect(running).rejects.toThrow()
    await until('it fell silent', async () => proxy.swallowed.size > 0)
    await store.close()
    await rejected
    await outbox.close()
  })

  it('[39] lets the process end although connections fell silent', async () => {
    const { name } = await newTables(kind)
    await using proxy = await startProxy(serverUrl(kind))
    const child = fork(PROCESS, [kind, proxy.url, name], { execArgv: ['--import', 'tsx'] })
    onTestFinished(() => void child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    expect(await Promise.race([once(child, 'message'), exited])).toEqual(['ready', undefined])
    proxy.goSilent()
    child.send('close')
    expect(await exited).toEqual([0, null])
  })
})
