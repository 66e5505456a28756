/** BEGIN that does not reach the server, or is refused: whatever goes wrong, nothing is stored on its own. */
import type pg from 'pg'
import { describe, expect, it } from 'vitest'
import { draft, heard, here, open, rows, setUp, stored, worksAgain, write } from './with-commit-words.ts'

setUp()

describe('nothing runs without BEGIN', () => {
  /** The first statement, and one behind it; the application goes on whatever they say. */
  const writeTwice = async (tx: pg.PoolClient, how: string): Promise<void> => {
    const first = async () =>
      how === 'without values'
        ? await tx.query(`INSERT INTO "${here.world.schema}".things VALUES (1)`)
        : await write(tx)
    await first().catch(() => undefined)
    await write(tx, 2).catch(() => undefined)
  }

  it('when the first statement is one that pg cannot make a query of', async () => {
    const { outbox } = await open()
    const wrong = {
      text: `INSERT INTO "${here.world.schema}".things VALUES ($1)`,
      values: [1],
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
        await writeTwice(tx, how)
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

  it('when what is around query() makes another query of each that has no name', async () => {
    const { outbox, pool } = await open()
    // As those do that add a comment, which what is prepared must not have.
    around(pool, (query) => (config: Partial<pg.QueryConfig>, values: unknown, callback: unknown) => {
      const said = config.text === undefined || config.name !== undefined ? config : { ...config }
      return Reflect.apply(query, null, [said, values, callback])
    })
    await outbox.transaction((tx) => outbox.publish(tx, draft()))
    const failing = outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft())
      await write(tx)
      throw new Error('back')
    })
    await expect(failing).rejects.toThrow('back')
    expect([await rows(), await stored()]).toEqual([0, 1])
  })

  /** Throws once it is exceeded, and then no more. */
  const budget = {
    isExceeded: false,
    spend(): void {
      if (!this.isExceeded) return
      this.isExceeded = false
      throw new Error('budget exceeded')
    },
  }

  it.each(['with values', 'without values', 'after a publish'])(
    'when what is around the client throws (%s)',
    async (how) => {
      const { outbox, pool } = await open()
      around(pool, (query) => (text: never, values: never, callback: never) => {
        budget.spend()
        return query(text, values, callback)
      })
      // It shows that it passes on what it is given.
      await outbox.transaction((tx) => outbox.publish(tx, draft()))
      const failing = outbox.transaction(async (tx) => {
        if (how === 'after a publish') await outbox.publish(tx, draft())
        budget.isExceeded = true
        await writeTwice(tx, how)
        throw new Error('back')
      })
      await expect(failing).rejects.toThrow('back')
      expect([await rows(), await stored()]).toEqual([0, 1])
      await worksAgain(outbox)
    },
  )

  it('when what is around the client is asynchronous and fails', async () => {
    const { outbox, pool } = await open()
    around(pool, (query) => async (text: never, values: never, callback: never) => {
      budget.spend()
      return query(text, values, callback)
    })
    await outbox.transaction((tx) => outbox.publish(tx, draft()))
    const failing = outbox.transaction(async (tx) => {
      budget.isExceeded = true
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
