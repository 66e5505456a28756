/** What the server does with transactions behind our back, and connections that break at the wrong moment. */
import mysql from 'mysql2/promise'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { createWorld, hex, rowsOf, SERVERS, untilWaiting, type World } from './mysql-words.ts'
import { serverUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'
import { until } from './until.ts'

let world: World

/** What transactions get, as the tests use it. */
interface Handle {
  query(sql: string, values?: readonly unknown[]): Promise<[unknown, unknown]>
}

const run = <T>(fn: (tx: Handle) => Promise<T>): Promise<T> =>
  world.t.transactions.run((tx) => fn(tx as Handle))

const connectionId = async (tx: Handle): Promise<number> => {
  const [rows] = await tx.query('SELECT CONNECTION_ID() AS id')
  return (rows as { id: number }[])[0]!.id
}

describe.each(SERVERS)('%s', (server) => {
  beforeEach(async () => {
    world = await createWorld(server)
    await world.hand.query(`CREATE TABLE ${world.table('shop')} (id INT PRIMARY KEY, n INT) ENGINE = InnoDB;
      INSERT INTO ${world.table('shop')} VALUES (1, 0), (2, 0)`)
  })

  afterEach(async () => {
    await world.hand.query(`DROP TABLE ${world.table('shop')}`).catch(() => undefined)
    await world.close()
  })

  const raise = (id: number) => `UPDATE ${world.table('shop')} SET n = n + 1 WHERE id = ${id}`

  /** The transaction that changes 2 and then 1 is given up by the server, because it weighs less. */
  const deadlock = async (tx: Handle): Promise<void> => {
    await tx.query(raise(2))
    await world.hand.query(
      `START TRANSACTION; INSERT INTO ${world.table('shop')} SELECT seq.n, 0 FROM (WITH RECURSIVE s (n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM s WHERE n < 200) SELECT n FROM s) AS seq; ${raise(1)}`,
    )
    const theirs = world.hand.query(raise(2))
    await untilWaiting(world)
    await expect(tx.query(raise(1))).rejects.toMatchObject({ errno: 1213 })
    await theirs
    await world.hand.query('COMMIT')
  }

  it('an insert that failed and was caught keeps nobody else from publishing', async () => {
    const { t } = world
    const known = await t.publish()
    // Each needs a statement of its own, so the first is stored when the second is refused.
    const data = JSON.stringify('x'.repeat(1_100_000))
    const events = [t.event({ data }), t.event({ data, id: known.event.id })]
    await t.transactions.run(async (tx) => {
      await expect(t.insertIn(tx, { events, deliveries: [] })).rejects.toThrow('stored already')
      const other = await t.publish()
      expect(await t.status(other)).toBe('pending')
    })
  })

  it('[9] a deadlock that the application swallows ends in a commit that is known to be none', async () => {
    const published = world.t.prepare()
    const running = run(async (tx) => {
      await world.t.publishIn(tx, published)
      await deadlock(tx)
      // Without our watch this would be stored by itself, and COMMIT would succeed.
      await tx.query(raise(2)).catch(() => undefined)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await world.t.store.inspection.event(published.event.id)).toBeNull()
    const [row] = await rowsOf(world.hand, `SELECT n FROM ${world.table('shop')} WHERE id = 2`)
    expect(row?.n).toBe(1)
  })

  it('after a deadlock nothing can be published or run in the transaction any more', async () => {
    const { transactions } = world.t
    const open = await transactions.begin!()
    await deadlock(open.tx as Handle)
    expect(transactions.inTransaction(open.tx)).toBe(false)
    const publishing = async () => world.t.publishIn(open.tx, world.t.prepare())
    await expect(publishing()).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    await open.rollback()
    await world.t.publish()
  })

  it('a deadlock inside a nested transaction takes the outer one with it', async () => {
    const published = world.t.prepare()
    const running = run(async (tx) => {
      await world.t.publishIn(tx, published)
      await world.t.transactions.nested!(tx, async (inner) => {
        await deadlock(inner as Handle)
      }).catch(() => undefined)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await world.t.store.inspection.event(published.event.id)).toBeNull()
  })

  it('why a nested transaction failed is told, also where it cannot be undone any more', async () => {
    const running = run(async (tx) => {
      const nesting = world.t.transactions.nested!(tx, async (inner) => {
        await world.hand.query(`KILL ${await connectionId(inner as Handle)}`)
        throw new Error('business')
      })
      await expect(nesting).rejects.toThrow('business')
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
  })

  it('a nested transaction that is used while it is rolled back leaves nothing in the outer one', async () => {
    await run(async (tx) => {
      const refused: unknown[] = []
      const nesting = world.t.transactions.nested!(tx, async (inner) => {
        const insert = (): void => {
          if (refused.length > 0) return
          try {
            ;(inner as Handle).query(raise(1)).catch(() => undefined)
            setImmediate(insert)
          } catch (error) {
            refused.push(error)
          }
        }
        insert()
        throw new Error('back')
      })
      await expect(nesting).rejects.toThrow('back')
      expect(refused).toMatchObject([{ code: 'POSTHASTE_TRANSACTION_ENDED' }])
      await tx.query('SELECT 1')
    })
    const [row] = await rowsOf(world.hand, `SELECT n FROM ${world.table('shop')} WHERE id = 1`)
    expect(row?.n).toBe(0)
  })

  it('a procedure that does not exist undoes only the nested transaction that called it', async () => {
    const published = world.t.prepare()
    await run(async (tx) => {
      await world.t.publishIn(tx, published)
      const nesting = world.t.transactions.nested!(tx, async (inner) => {
        await (inner as Handle).query(`CALL ${world.table('missing')}()`)
      })
      await expect(nesting).rejects.toMatchObject({ detail: { errno: 1305 } })
    })
    expect(await world.t.status(published)).toBe('pending')
  })

  it('a lock that was not had in time undoes only its statement', async () => {
    const published = world.t.prepare()
    await world.hand.query(`START TRANSACTION; ${raise(1)}`)
    await run(async (tx) => {
      await tx.query('SET SESSION innodb_lock_wait_timeout = 1')
      await world.t.publishIn(tx, published)
      await expect(tx.query(raise(1))).rejects.toMatchObject({ errno: 1205 })
      await tx.query('SET SESSION innodb_lock_wait_timeout = DEFAULT')
    })
    expect(await world.t.readableIds()).toEqual([published.delivery.id])
    await world.hand.query('ROLLBACK')
  })

  it('[10] statements that commit or roll back are refused before they do it', async () => {
    await run(async (tx) => {
      for (const [sql, says] of [
        ['COMMIT', 'throw to roll back'],
        ['rollback', 'throw to roll back'],
        ['SAVEPOINT x', 'nest outbox.transaction'],
        ['SET autocommit = 1', 'SET AUTOCOMMIT ends the transaction'],
        [`CREATE TABLE ${world.table('other')} (id INT)`, 'CREATE commits the open transaction on MySQL'],
        [`/*!50000 TRUNCATE ${world.table('shop')} */`, 'TRUNCATE commits the open transaction on MySQL'],
      ] as const) {
        const message = expect.stringContaining(says)
        const refused = expect.objectContaining({ code: 'POSTHASTE_CONFLICT', message })
        expect(() => tx.query(sql), sql).toThrow(refused)
      }
      await tx.query(`CREATE TEMPORARY TABLE posthaste_temporary (id INT)`)
      await tx.query('DROP TEMPORARY TABLE posthaste_temporary')
      await world.t.publishIn(tx, world.t.prepare())
    })
    expect((await world.t.readableIds()).length).toBe(1)
  })

  it('a transaction that was committed behind our back is found out', async () => {
    await world.hand.query(
      `DROP PROCEDURE IF EXISTS ${world.table('sneak')}; CREATE PROCEDURE ${world.table('sneak')}() BEGIN SELECT 1; COMMIT; END`,
    )
    const running = run(async (tx) => {
      await world.t.publishIn(tx, world.t.prepare())
      await tx.query(`CALL ${world.table('sneak')}()`)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
    await world.hand.query(`DROP PROCEDURE ${world.table('sneak')}`)
  })

  it('[3] a connection that is cut before COMMIT is answered leaves the outcome unknown', async () => {
    const running = run(async (tx) => {
      await world.t.publishIn(tx, world.t.prepare())
      await world.hand.query(`KILL ${await connectionId(tx)}`)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
    expect(await world.t.readableIds()).toEqual([])
    // The broken connection is not handed out again.
    for (let i = 0; i < 12; i++) await world.t.publish()
  })

  it('[38] connections that the server ends while they are idle do not end the process', async () => {
    const ids = new Set<number>()
    await Promise.all(
      Array.from({ length: 3 }, () =>
        run(async (tx) => {
          ids.add(await connectionId(tx))
        }),
      ),
    )
    for (const id of ids) await world.hand.query(`KILL ${id}`)
    await until('publishing works again', () =>
      world.t.publish().then(
        () => true,
        () => false,
      ),
    )
  })

  it('an application’s own connection in a transaction will do, and one without is told so', async () => {
    const pool = mysql.createPool({ uri: serverUrl(server), connectionLimit: 2 })
    const store = mysqlStore({ pool, prefix: world.harness.prefix })
    await store.open(testContext())
    const insert = (connection: mysql.PoolConnection, published: ReturnType<typeof world.t.prepare>) =>
      store.insert(store.transactions.executor(connection), {
        events: [published.event],
        deliveries: [published.delivery],
        hotLeaseMs: 1_000,
        lockKeys: false,
      })
    const connection = await pool.getConnection()
    await connection.beginTransaction()
    expect(store.transactions.inTransaction(connection)).toBeUndefined()
    const [kept, refused] = [world.t.prepare(), world.t.prepare()]
    await insert(connection, kept)
    await connection.commit()
    await expect(insert(connection, refused)).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
    expect(await world.t.readableIds()).toEqual([kept.delivery.id])
    expect(
      await rowsOf(world.hand, `SELECT 1 FROM ${world.table('events')} WHERE id = ${hex(refused.event.id)}`),
    ).toEqual([])
    connection.release()
    expect(store.transactions.inTransaction(pool as never)).toBe(false)
    expect(() => store.transactions.executor(pool as never)).toThrow(
      expect.objectContaining({ code: 'POSTHASTE_NO_TRANSACTION' }),
    )
    await store.close()
    await pool.end()
  })

  it('texts survive a character set that the connection was given behind the driver’s back', async () => {
    const pool = mysql.createPool({ uri: serverUrl(server), connectionLimit: 1 })
    await pool.query('SET NAMES latin1')
    const store = mysqlStore({ pool, prefix: world.harness.prefix })
    await store.open(testContext())
    const published = world.t.prepare({ key: '漢', data: '{"n":"漢字"}' })
    await store.transactions.run((tx) =>
      store.insert(store.transactions.executor(tx), {
        events: [published.event],
        deliveries: [published.delivery],
        hotLeaseMs: 1_000,
        lockKeys: false,
      }),
    )
    const { key, event } = await world.t.readOne(published)
    expect([key, event?.data]).toEqual(['漢', '{"n":"漢字"}'])
    await store.close()
    await pool.end()
  })

  it('a payload that another program damaged on its way is refused', async () => {
    const published = world.t.prepare({ data: '{"n":"漢字"}' })
    const open = await world.t.begin()
    const damaged = { ...published.event, size: published.event.size + 1 }
    await expect(
      world.t.insertIn(open.tx, { events: [damaged], deliveries: [published.delivery] }),
    ).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT', message: expect.stringContaining('utf8mb4') })
    await open.rollback()
  })
})
