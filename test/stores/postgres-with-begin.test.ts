/** BEGIN goes to the server together with what is sent first, and nothing ever runs in front of it. */
import { createRequire } from 'node:module'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import {
  draft,
  here,
  open,
  publishingFirst,
  rows,
  sent,
  setUp,
  stored,
  worksAgain,
  write,
} from './with-commit-words.ts'

setUp()

interface Cursor extends pg.Submittable {
  read(rows: number): Promise<readonly { readonly xid: string }[]>
  close(): Promise<void>
}

/** Nobody here depends on it by name. */
const CursorOfPg: new (text: string) => Cursor = createRequire(
  createRequire(import.meta.url).resolve('@mikro-orm/postgresql'),
)('pg-cursor')

/** Of the transaction that asks: another one would have another number. */
const XID = 'SELECT pg_current_xact_id()::text AS xid'

/** On the only connection of the pool: the server's own word for a transaction. */
const isIdle = async (pool: pg.Pool): Promise<boolean> => {
  const client = await pool.connect()
  try {
    await client.query('SELECT 1')
    return client.getTransactionStatus() === 'I'
  } finally {
    client.release()
  }
}

describe('BEGIN', () => {
  it('costs no round trip, nor does the publish: one for the data, one for the rest', async () => {
    const { outbox, trips } = await open()
    let n = 0
    const both = (): Promise<void> =>
      outbox.transaction(async (tx) => {
        n += 1
        await write(tx, n)
        await outbox.publish(tx, draft())
      })
    await both()
    expect(await trips.during(both)).toBe(2)
    expect([await rows(), await stored()]).toEqual([2, 2])
  })

  it('goes alone before a publish and COMMIT when there is nothing else, so that no answer means no COMMIT', async () => {
    const { outbox, trips } = await open()
    const once = (): Promise<unknown> => outbox.transaction((tx) => outbox.publish(tx, draft()))
    await once()
    expect(await trips.during(once)).toBe(2)
    expect(await stored()).toBe(2)
  })

  it('lets the event behind it be prepared, and an event that could not be is prepared anew', async () => {
    const { outbox, pool, trips } = await open()
    const publishFirst = publishingFirst(outbox)
    await publishFirst()
    // Nothing is prepared on the next one.
    ;(await pool.connect()).release(true)
    const rename = (from: string, to: string): Promise<unknown> =>
      here.world.hand.query(`ALTER TABLE "${here.world.schema}".${from} RENAME TO ${to}`)
    await rename('events', 'hidden')
    await expect(publishFirst()).rejects.toMatchObject({ code: 'POSTHASTE_SCHEMA_BEHIND' })
    await rename('hidden', 'events')
    // BEGIN with the event, the data, COMMIT.
    expect(await trips.during(publishFirst)).toBe(3)
    expect(await trips.during(publishFirst)).toBe(3)
    expect([await rows(), await stored()]).toEqual([3, 3])
  })

  it('is not sent for nothing', async () => {
    const { outbox, trips } = await open()
    expect(await trips.during(() => outbox.transaction(async () => undefined))).toBe(0)
    const failing = outbox.transaction(async () => {
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(sent).toEqual([])
  })

  it('leaves the answer as pg gives it', async () => {
    const { outbox, pool } = await open()
    const ask = { text: 'SELECT $1::int AS a, 2 AS b', values: [1] }
    const wanted = await pool.query(ask)
    const answer = await outbox.transaction((tx) => tx.query(ask))
    expect({ ...answer }).toEqual({ ...wanted })
    const inRows = await outbox.transaction((tx) => tx.query({ ...ask, rowMode: 'array' }))
    expect(inRows.rows).toEqual([[1, 2]])
    const written = await outbox.transaction((tx) => write(tx, 7) as Promise<pg.QueryResult>)
    expect([written.command, written.rowCount]).toEqual(['INSERT', 1])
  })

  const said: readonly [string, (tx: pg.PoolClient) => Promise<string>][] = [
    ['with values', async (tx) => (await tx.query(`${XID} WHERE $1`, [true])).rows[0].xid],
    ['without values', async (tx) => (await tx.query(XID)).rows[0].xid],
    [
      'with a name',
      async (tx) => (await tx.query({ name: 'x', text: `${XID} WHERE $1`, values: [true] })).rows[0].xid,
    ],
    [
      'with a callback',
      (tx) =>
        new Promise((resolve, reject) => {
          tx.query(`${XID} WHERE $1`, [true], (error, answer) =>
            error ? reject(error) : resolve(answer.rows[0].xid),
          )
        }),
    ],
    [
      'by a cursor',
      async (tx) => {
        const cursor = tx.query(new CursorOfPg(XID))
        const [row] = await cursor.read(1)
        await cursor.close()
        return row?.xid ?? ''
      },
    ],
    [
      'by a query of pg',
      (tx) =>
        new Promise((resolve, reject) => {
          const query = new pg.Query<{ xid: string }>(XID)
          query.on('error', reject)
          query.on('end', (answer) => resolve(answer.rows[0]?.xid ?? ''))
          tx.query(query)
        }),
    ],
  ]

  it.each(said)('is in front of a first statement %s', async (_, ask) => {
    const { outbox, pool } = await open()
    // Twice on the connection, because a name is prepared only once.
    for (const n of [1, 2]) {
      const failing = outbox.transaction(async (tx) => {
        const first = await ask(tx)
        expect((await tx.query(XID)).rows[0].xid).toBe(first)
        await write(tx, n)
        throw new Error('back')
      })
      await expect(failing).rejects.toThrow('back')
    }
    expect(await rows()).toBe(0)
    expect(await isIdle(pool)).toBe(true)
    await worksAgain(outbox)
  })

  it('is in front of statements that nobody awaits one by one', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      await Promise.all([
        write(tx, 1),
        tx.query('SELECT 1'),
        write(tx, 2),
        outbox.publish(tx, draft()),
        write(tx, 3),
      ])
      throw new Error('back')
    })
    await expect(failing).rejects.toThrow('back')
    expect([await rows(), await stored()]).toEqual([0, 0])
    await worksAgain(outbox)
  })

  it('is in front of a publish that is awaited, of a nested transaction, and of what is found deeper', async () => {
    const { outbox, pool } = await open()
    const works: readonly ((tx: pg.PoolClient) => Promise<unknown>)[] = [
      (tx) => outbox.publish(tx, draft({ idempotencyKey: 'k' })),
      (tx) => outbox.publish(tx, draft({ payload: 'x'.repeat(70_000) })),
      () => outbox.transaction((inner) => write(inner)),
      (tx) =>
        new Promise((resolve) => {
          const client = tx as unknown as { connection: { query(text: string): void } }
          tx.once('drain', resolve)
          client.connection.query(`INSERT INTO "${here.world.schema}".things VALUES (1)`)
        }),
    ]
    for (const work of works) {
      const failing = outbox.transaction(async (tx) => {
        await work(tx)
        throw new Error('back')
      })
      await expect(failing).rejects.toThrow('back')
      expect(await isIdle(pool)).toBe(true)
    }
    expect([await rows(), await stored()]).toEqual([0, 0])
    await worksAgain(outbox)
  })

  it('stays when the statement it came with is refused', async () => {
    const { outbox } = await open()
    const failing = outbox.transaction(async (tx) => {
      await expect(tx.query('SELECT 1 / $1::int', [0])).rejects.toMatchObject({ code: '22012' })
      await expect(write(tx)).rejects.toMatchObject({ code: '25P02' })
    })
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    expect(await rows()).toBe(0)
    await worksAgain(outbox)
  })

  it('stays when the values of the statement it came with cannot be sent', async () => {
    const { outbox, pool } = await open()
    const circle: Record<string, unknown> = {}
    circle.circle = circle
    const failing = outbox.transaction(async (tx) => {
      await expect(tx.query('SELECT $1::json', [circle])).rejects.toThrow('circular')
      await write(tx)
      throw new Error('back')
    })
    await expect(failing).rejects.toThrow('back')
    expect([await rows(), await isIdle(pool)]).toEqual([0, true])
    await worksAgain(outbox)
  })
})

it('a first statement that takes too long fails as pg lets it fail, and its connection is gone', async () => {
  const { outbox } = await open()
  const failing = outbox.transaction(async (tx) => {
    const slow = { text: 'SELECT pg_sleep($1)', values: [5], query_timeout: 100 }
    await expect(tx.query(slow)).rejects.toThrow(/^Query read timeout$/)
  })
  await expect(failing).rejects.toMatchObject({ name: 'StoreError' })
  await worksAgain(outbox)
})

it('pg is not asked while it is at work, not even by a publish that a statement follows', async () => {
  const { outbox, trips } = await open()
  let n = 0
  const both = (): Promise<void> =>
    outbox.transaction(async (tx) => {
      n += 1
      await outbox.publish(tx, draft())
      await write(tx, n)
    })
  await both()
  // BEGIN with the event, the statement, COMMIT.
  expect(await trips.during(both)).toBe(3)
  expect([await rows(), await stored()]).toEqual([2, 2])
})
