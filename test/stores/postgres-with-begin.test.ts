/** BEGIN goes to the server together with what is sent first, and nothing ever runs in front of it. */
import { createRequire } from 'node:module'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import {
  draft,
  heard,
  here,
  open,
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

  it('goes with the publish and COMMIT when there is nothing else', async () => {
    const { outbox, trips } = await open()
    const once = (): Promise<unknown> => outbox.transaction((tx) => outbox.publish(tx, draft()))
    await once()
    expect(await trips.during(once)).toBe(1)
    expect(await stored()).toBe(2)
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

/** Rows, not errors: whatever went wrong, nothing may have been stored on its own. */
describe('nothing runs without BEGIN', () => {
  const insert = (n: number) => ({
    text: `INSERT INTO "${here.world.schema}".things VALUES ($1)`,
    values: [n],
  })

  it('when the first statement is one that pg cannot make a query of', async () => {
    const { outbox } = await open()
    const wrong = {
      ...insert(1),
      get types(): never {
        throw new Error('no types')
      },
    }
    const failing = outbox.transaction(async (tx) => {
      expect(() => tx.query(wrong)).toThrow('no types')
      await write(tx, 2)
      throw new Error('back')
    })
    await expect(failing).rejects.toThrow('back')
    expect(await rows()).toBe(0)
    await worksAgain(outbox)
  })

  it.each(['with values', 'without values', 'after a publish'])(
    'when whoever hears of statements throws at BEGIN (%s)',
    async (how) => {
      const { outbox } = await open()
      let isFirst = true
      heard.do = (sql) => {
        if (sql === 'BEGIN' && isFirst) {
          isFirst = false
          throw new Error('not now')
        }
      }
      const failing = outbox.transaction(async (tx) => {
        if (how === 'after a publish') await outbox.publish(tx, draft())
        const first = async () =>
          how === 'without values'
            ? await tx.query(`INSERT INTO "${here.world.schema}".things VALUES (1)`)
            : await write(tx)
        await first().catch(() => undefined)
        await write(tx, 2).catch(() => undefined)
        throw new Error('back')
      })
      await expect(failing).rejects.toThrow('back')
      expect([await rows(), await stored()]).toEqual([0, 0])
      await worksAgain(outbox)
    },
  )

  /** Around the client of the only connection, from its first use on. */
  const around = (pool: pg.Pool, wrap: (query: pg.PoolClient['query']) => unknown): void => {
    pool.on('acquire', (client) => {
      if (Object.hasOwn(client, 'query')) return
      Object.assign(client, { query: wrap(client.query.bind(client) as pg.PoolClient['query']) })
    })
  }

  it.each(['with values', 'without values'])('when what is around the client throws (%s)', async (how) => {
    const { outbox, pool } = await open()
    let refuses = false
    around(pool, (query) => (text: never, values: never, callback: never) => {
      if (refuses) {
        refuses = false
        throw new Error('budget exceeded')
      }
      return query(text, values, callback)
    })
    // It shows that it passes on what it is given.
    await outbox.transaction((tx) => outbox.publish(tx, draft()))
    const failing = outbox.transaction(async (tx) => {
      refuses = true
      const first = async () =>
        how === 'with values'
          ? await write(tx)
          : await tx.query(`INSERT INTO "${here.world.schema}".things VALUES (1)`)
      await first().catch(() => undefined)
      await write(tx, 2).catch(() => undefined)
      throw new Error('back')
    })
    await expect(failing).rejects.toThrow('back')
    expect(await rows()).toBe(0)
    await worksAgain(outbox)
  })

  it('when what is around the client is asynchronous and fails', async () => {
    const { outbox, pool } = await open()
    let refuses = false
    around(pool, (query) => async (text: never, values: never, callback: never) => {
      if (refuses) {
        refuses = false
        throw new Error('budget exceeded')
      }
      return await query(text, values, callback)
    })
    await outbox.transaction((tx) => outbox.publish(tx, draft()))
    const failing = outbox.transaction(async (tx) => {
      refuses = true
      await Promise.allSettled([write(tx, 1), write(tx, 2)])
      throw new Error('back')
    })
    await expect(failing).rejects.toThrow('back')
    expect(await rows()).toBe(0)
  })

  it.each(['a statement', 'a publish', 'a publish and a statement'])(
    'when somebody puts another function in the place of query() before %s',
    async (what) => {
      const { outbox } = await open()
      const failing = outbox.transaction(async (tx) => {
        const client = tx as unknown as { query: unknown }
        const original = tx.query as (query: object) => Promise<unknown>
        client.query = (text: unknown, values: unknown, _callback: unknown) =>
          original(
            typeof text === 'string'
              ? { text, values }
              : { ...(text as object), values: values ?? (text as pg.QueryConfig).values },
          )
        if (what !== 'a statement') await outbox.publish(tx, draft())
        if (what !== 'a publish') await write(tx)
        throw new Error('back')
      })
      await expect(failing).rejects.toThrow('back')
      expect([await rows(), await stored()]).toEqual([0, 0])
    },
  )
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

describe('a BEGIN that the server refuses', () => {
  /** As one that was cancelled at this moment: nothing is behind it in a transaction. */
  const refusing = (pool: pg.Pool): void => {
    pool.on('acquire', (client) => {
      const wire = (client as unknown as { connection: Record<'parse' | 'query', (message: never) => void> })
        .connection
      if (Object.hasOwn(wire, 'parse')) return
      const { parse, query } = wire
      const wrong = 'BEGIN ISOLATION LEVEL unheard of'
      wire.parse = (message: { text: string }) =>
        parse.call(wire, { ...message, text: message.text === 'BEGIN' ? wrong : message.text } as never)
      wire.query = (text: string) => query.call(wire, (text === 'BEGIN' ? wrong : text) as never)
    })
  }

  const said: readonly [string, (tx: pg.PoolClient) => Promise<unknown>][] = [
    ['with values', (tx) => write(tx)],
    ['without values', (tx) => tx.query(`INSERT INTO "${here.world.schema}".things VALUES (1)`)],
    ['several at once', (tx) => Promise.all([write(tx, 1), write(tx, 2), write(tx, 3)])],
    [
      'several at once without values',
      (tx) => Promise.all([tx.query(`INSERT INTO "${here.world.schema}".things VALUES (1)`), write(tx, 2)]),
    ],
    [
      'although it is caught',
      async (tx) => {
        await write(tx, 1).catch(() => undefined)
        await write(tx, 2).catch(() => undefined)
      },
    ],
  ]

  it.each(said)('lets nothing through: %s', async (_, work) => {
    const { outbox, pool } = await open()
    refusing(pool)
    await expect(outbox.transaction(work)).rejects.toMatchObject({ name: 'StoreError' })
    expect(await rows()).toBe(0)
  })

  it.each([[0], [70_000]])('lets no event through, of %i characters', async (length) => {
    const { outbox, pool } = await open()
    const publish = (): Promise<unknown> =>
      outbox.transaction((tx) => outbox.publish(tx, draft({ payload: 'x'.repeat(length) })))
    await publish()
    refusing(pool)
    await expect(publish()).rejects.toMatchObject({ name: 'StoreError' })
    expect(await stored()).toBe(1)
  })
})
