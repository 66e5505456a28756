/** Tables that are missing, half made, too new or not to be written; users without rights; and the schema from inside. */
import { fork } from 'node:child_process'
import mysql from 'mysql2/promise'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { MysqlDatabase } from '../../src/stores/mysql/database.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { resolveMysqlOptions } from '../../src/stores/mysql/options.ts'
import { schemaRole } from '../../src/stores/mysql/schema.ts'
import { mysqlTables } from '../../src/stores/mysql/tables.ts'
import { dropTables, newPrefix, poolOf, runByHand } from './mysql-harness.ts'
import { createWorld, hex, rowsOf, SERVERS, type World } from './mysql-words.ts'
import { serverUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

let world: World

const open = async (server: (typeof SERVERS)[number], over: object = {}) => {
  const store = mysqlStore({ connectionString: serverUrl(server), ...over })
  await store.open(testContext())
  return store
}

const urlWith = (server: (typeof SERVERS)[number], change: (url: URL) => void): string => {
  const url = new URL(serverUrl(server))
  change(url)
  return url.toString()
}

describe.each(SERVERS)('%s: a server', (server) => {
  it.each([
    [
      'that does not answer',
      (url: URL) => {
        url.port = '1'
      },
      'POSTHASTE_STORE_UNAVAILABLE',
      true,
      'ECONNREFUSED',
    ],
    [
      'with another password',
      (url: URL) => {
        url.password = 'wrong'
      },
      'POSTHASTE_STORE_UNAVAILABLE',
      false,
      'password',
    ],
    [
      'without this database',
      (url: URL) => {
        url.pathname = '/nowhere_at_all'
      },
      'POSTHASTE_STORE_UNAVAILABLE',
      false,
      'does not have the database',
    ],
    [
      'without any database',
      (url: URL) => {
        url.pathname = ''
      },
      'POSTHASTE_STORE_UNAVAILABLE',
      false,
      'name no database',
    ],
  ] as const)('%s is told apart', async (_, change, code, transient, text) => {
    const opening = open(server, { connectionString: urlWith(server, change) })
    await expect(opening).rejects.toMatchObject({ code, transient, message: expect.stringContaining(text) })
    await expect(opening).rejects.not.toMatchObject({ message: expect.stringContaining('wrong') })
  })

  it('without tables says that it has to be migrated', async () => {
    const store = await open(server, { prefix: newPrefix() })
    await expect(store.registry.load()).rejects.toMatchObject({
      code: 'POSTHASTE_SCHEMA_BEHIND',
      message: expect.stringContaining('Migrate'),
    })
    expect((await store.schema.status()).current).toBe(0)
    await store.close()
    await store.close()
    await expect(store.registry.load()).rejects.toMatchObject({ code: 'POSTHASTE_CLOSED' })
  })

  it('of which every connection is closed by the other side is found again', async () => {
    // A database of its own, so that nobody else's connections are closed.
    const name = newPrefix()
    await runByHand(server, `CREATE DATABASE ${name}`)
    const connectionString = urlWith(server, (url) => {
      url.pathname = `/${name}`
    })
    const store = await open(server, { connectionString })
    await store.schema.migrate()
    const mine = await rowsOf(
      poolOf(server),
      `SELECT ID AS id FROM information_schema.PROCESSLIST WHERE DB = '${name}'`,
    )
    expect(mine.length).toBeGreaterThan(0)
    for (const { id } of mine) await runByHand(server, `KILL ${String(id)}`)
    // A connection may be handed out once more before its end was noticed; then the error says that trying again helps.
    for (let tries = 0; ; tries++) {
      try {
        await store.registry.load()
        break
      } catch (error) {
        expect(error).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
        expect(tries).toBeLessThan(5)
      }
    }
    await store.close()
    await runByHand(server, `DROP DATABASE ${name}`)
  })
})

describe.each(SERVERS)('%s: the schema', (server) => {
  beforeEach(async () => {
    world = await createWorld(server)
  })

  afterEach(() => world.close())

  it('[46] ten first boots at once leave one schema', async () => {
    const prefix = newPrefix()
    const script = new URL('./mysql-process.ts', import.meta.url)
    const processes = Array.from({ length: 10 }, () => {
      const child = fork(script, [server, prefix], {
        execArgv: [...TYPESCRIPT],
        stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
      })
      let errors = ''
      child.stderr?.on('data', (chunk: Buffer) => {
        errors += chunk.toString()
      })
      const ready = new Promise<void>((resolve) => child.once('message', () => resolve()))
      const ended = new Promise<void>((resolve, reject) => {
        child.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(`exit ${code}\n${errors}`))))
      })
      return { child, ready, ended }
    })
    await Promise.all(processes.map(({ ready, ended }) => Promise.race([ready, ended])))
    for (const { child } of processes) child.send('go')
    await Promise.all(processes.map(({ ended }) => ended))
    const store = await open(server, { prefix })
    const { current, latest, applied } = await store.schema.status()
    expect([current, applied.length]).toEqual([latest, latest])
    await store.close()
    await dropTables(server, prefix)
  })

  it('is completed when the first try broke in the middle', async () => {
    const { t } = world
    await world.hand.query(
      `DROP VIEW ${world.table('all')}; DROP TABLE ${world.table('stats')}, ${world.table('audit')}; DELETE FROM ${world.table('migrations')}; DELETE FROM ${world.table('lanes')} WHERE lane > 3`,
    )
    const published = await t.publish()
    const { current, latest } = await t.store.schema.migrate()
    expect(current).toBe(latest)
    expect(await t.readableIds()).toEqual([published.delivery.id])
    const [row] = await rowsOf(
      world.hand,
      `SELECT COUNT(*) AS n FROM ${world.table('lanes')} WHERE destination = '*'`,
    )
    expect(row?.n).toBe(64)
    expect((await rowsOf(world.hand, `SELECT status FROM ${world.table('all')}`)).length).toBe(1)
  })

  it('is completed when a column was added and not recorded', async () => {
    const { schema, registry } = world.t.store
    await world.hand.query(`DELETE FROM ${world.table('migrations')} WHERE version = 2`)
    const { current, latest } = await schema.migrate()
    expect(current).toBe(latest)
    await world.t.declare('alpha')
    await registry.configure('alpha', { concurrency: 2 }, { actor: 'ops', reason: null })
    expect((await registry.load()).destinations[0]?.settings).toEqual({ concurrency: 2 })
  })

  it('is left to the process that migrates it, which is said before the statement is given up', async () => {
    const { prefix } = world.harness
    const forgetLast = `DELETE FROM ${world.table('migrations')} WHERE version = ${(await world.t.store.schema.status()).latest}`
    const sent: string[] = []
    const onStatement = (sql: string) => sent.push(sql)
    const store = await open(server, { prefix, queryTimeoutMs: 5_000, onStatement })
    await world.hand.query(forgetLast)
    await store.schema.migrate()
    // As another process would, for as long as its connection lives.
    await world.hand.query(sent.find((sql) => sql.includes('GET_LOCK')) ?? '')
    await world.hand.query(forgetLast)
    await expect(store.schema.migrate()).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_BUSY',
      transient: true,
      message: expect.stringContaining('Another process has been migrating the tables for 4 seconds'),
    })
    await store.close()
  })

  it('lets nobody wait for long behind a transaction that has a table, and says what to do', async () => {
    const store = await open(server, { prefix: world.harness.prefix, queryTimeoutMs: 60_000 })
    const { schema, lanes } = store
    const { latest } = await schema.status()
    const me = await world.t.worker()
    await world.hand.query(
      `ALTER TABLE ${world.table('workers')} DROP COLUMN lease_ms; DELETE FROM ${world.table('migrations')} WHERE version = ${latest}`,
    )
    const reader = await mysql.createConnection({ uri: serverUrl(server), multipleStatements: true })
    await reader.query(`START TRANSACTION; SELECT COUNT(*) FROM ${world.table('workers')}`)
    try {
      await expect(schema.migrate()).rejects.toMatchObject({
        code: 'POSTHASTE_STORE_BUSY',
        transient: true,
        message: expect.stringMatching(/transaction .* for 5 seconds.* try it again/),
      })
      // Though the transaction is still there.
      expect(await lanes.renew(me.id, 60_000)).toBe(true)
    } finally {
      await reader.end()
    }
    expect((await schema.migrate()).current).toBe(latest)
    await store.close()
  })

  it('leaves its connection as it was', async () => {
    const { prefix } = world.harness
    const sent: string[] = []
    const database = new MysqlDatabase(
      resolveMysqlOptions({
        connectionString: serverUrl(server),
        prefix,
        onStatement: (sql) => sent.push(sql),
      }),
    )
    await database.open(testContext())
    const seconds = 'SELECT @@SESSION.lock_wait_timeout'
    const usual = await database.rows(seconds)
    await world.hand.query(`DELETE FROM ${world.table('migrations')} WHERE version = 4`)
    await schemaRole(database, mysqlTables(prefix)).migrate()
    expect(sent.some((sql) => sql.includes('lock_wait_timeout = 5'))).toBe(true)
    expect(await database.rows(seconds)).toEqual(usual)
    await database.close()
  })

  it('is refused when a newer library has migrated it', async () => {
    const { schema } = world.t.store
    const { latest } = await schema.status()
    await world.hand.query(
      `INSERT INTO ${world.table('migrations')} VALUES (${latest + 1}, 'from_the_future', UTC_TIMESTAMP(6))`,
    )
    await expect(schema.migrate()).rejects.toMatchObject({ code: 'POSTHASTE_SCHEMA_AHEAD' })
  })

  it.each(['plain', 'partitioned'] as const)('can be printed and run by hand, %s', async (layout) => {
    const prefix = newPrefix()
    const store = await open(server, { prefix, layout })
    await runByHand(server, store.schema.sql())
    const status = await store.schema.status()
    expect(status.current).toBe(status.latest)
    await store.registry.declare([{ name: 'alpha', patterns: ['*'] }])
    await store.close()
    await dropTables(server, prefix)
  })

  it('[22] has no state that no sweep looks for', async () => {
    await world.t.publish()
    for (const change of [
      'status = 1',
      'status = 7',
      'status = 6',
      'holds_key = 1',
      'lane = 64',
      'run = 0',
      'parked = 2',
    ])
      await expect(
        world.hand.query(`UPDATE ${world.table('deliveries')} SET ${change}`),
        change,
      ).rejects.toMatchObject({
        errno: expect.toSatisfy((errno: number) => [3819, 4025].includes(errno)),
      })
  })

  it('keeps payloads that are JSON however deep, and refuses what is none', async () => {
    const { t } = world
    const data = `${'['.repeat(64)}1${']'.repeat(64)}`
    const published = await t.publish({ data })
    expect((await t.readOne(published)).event?.data).toBe(data)
    const change = `UPDATE ${world.table('events')} SET payload = '{broken', size = 7 WHERE id = ${hex(published.event.id)}`
    await expect(world.hand.query(change)).rejects.toMatchObject({ sqlState: expect.any(String) })
  })

  it.each([undefined, 'utf8mb4_unicode_ci', 'utf8mb4_bin', 'latin1_swedish_ci'])(
    'answers the questions of an operator over a connection with the collation %s',
    async (charset) => {
      const me = await world.t.worker()
      const published = await world.t.publish()
      await world.t.dead(published, me.right)
      const uri = serverUrl(server)
      const connection = await mysql.createConnection({ uri, ...(charset === undefined ? {} : { charset }) })
      try {
        const all = world.table('all')
        const ask = async (where: string) =>
          (await rowsOf(connection, `SELECT event_id FROM ${all} WHERE ${where}`)).length
        expect(await ask(`status = 'dead'`)).toBe(1)
        expect(await ask(`status IN ('retry', 'dead') ORDER BY available_at`)).toBe(1)
        expect(
          await ask(`event_id = '${published.event.id}' AND delivery_id = '${published.delivery.id}'`),
        ).toBe(1)
        const [rows] = await connection.execute(`SELECT event_id FROM ${all} WHERE status = ?`, ['dead'])
        expect(rows).toHaveLength(1)
      } finally {
        await connection.end()
      }
    },
  )

  it('shows unfinished and finished work in one view, with times that people read', async () => {
    const { t } = world
    const me = await t.worker()
    const [first, second] = [await t.publish({ key: 'k' }), await t.publish({ tenantId: 'acme' })]
    await t.retry(first, me.right, { delayMs: 0, message: 'no' })
    await t.done(first, me.right)
    await world.hand.query("SET time_zone = '+05:00'")
    const rows = await rowsOf(
      world.hand,
      `SELECT v.*, TIMESTAMPDIFF(SECOND, created_at, UTC_TIMESTAMP()) AS age FROM ${world.table('all')} AS v ORDER BY seq`,
    )
    expect(rows).toMatchObject([
      {
        event_id: first.event.id,
        delivery_id: first.delivery.id,
        type: 'order.placed',
        destination: 'alpha',
        status: 'done',
        key: 'k',
        last_error: 'no',
      },
      { event_id: second.event.id, status: 'pending', tenant_id: 'acme', done_at: null, attempts: 0 },
    ])
    expect(rows[0]?.done_at).toBeInstanceOf(Date)
    expect(Math.abs(Number(rows[0]?.age))).toBeLessThan(60)
  })

  it('does not depend on the time zone of the server or of a session', async () => {
    const pool = mysql.createPool({ uri: serverUrl(server), connectionLimit: 1 })
    const store = mysqlStore({ pool, prefix: world.harness.prefix })
    await store.open(testContext())
    await pool.query("SET time_zone = '-08:00'")
    const published = world.t.prepare({ due: { atMs: Date.UTC(2100, 0, 1) } })
    await store.transactions.run((tx) =>
      store.insert(store.transactions.executor(tx), {
        events: [published.event],
        deliveries: [published.delivery],
        hotLeaseMs: 1,
        lockKeys: false,
      }),
    )
    const view = await world.t.view(published)
    expect(view.availableAtMs).toBe(Date.UTC(2100, 0, 1))
    expect(Math.abs(view.createdAtMs - Date.now())).toBeLessThan(60_000)
    await store.close()
    await pool.end()
  })

  it('holds two outboxes with different prefixes', async () => {
    const other = await createWorld(server)
    await world.t.publish()
    expect(await other.t.readableIds()).toEqual([])
    await other.close()
  })
})
