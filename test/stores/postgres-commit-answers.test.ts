/** What COMMIT, and what came before it, was answered with, and that nothing else is made of it. */
import { EventEmitter, once } from 'node:events'
import type pg from 'pg'
import { describe, expect, it } from 'vitest'
import { pgTransactions } from '../../src/clients/pg.ts'
import type { OpenTransaction } from '../../src/core/spi/index.ts'
import { draft, here, open, rows, setUp, stored, worksAgain, write } from './with-commit-words.ts'

const UNKNOWN = { code: 'POSTHASTE_COMMIT_UNKNOWN' }
const UNAVAILABLE = { code: 'POSTHASTE_STORE_UNAVAILABLE' }

describe('a transaction on a server', () => {
  setUp()

  it('is not committed when a nested one could not be rolled back', async () => {
    // What waits for its turn when its time is over is dropped by pg, and never sent.
    const { outbox } = await open({ query_timeout: 1_000 })
    const failing = outbox.transaction(async (tx) => {
      const nested = outbox.transaction(async (inner) => {
        await write(inner)
        await outbox.publish(inner, draft())
        inner.query('SELECT pg_sleep(1.5)').catch(() => undefined)
        throw new Error('back')
      })
      await expect(nested).rejects.toThrow('back')
      // Until the server is free again.
      await here.world.hand.query('SELECT pg_sleep(1.5)')
      return tx
    })
    await expect(failing).rejects.toMatchObject({ name: 'StoreError' })
    expect([await rows(), await stored()]).toEqual([0, 0])
    await worksAgain(outbox)
  })

  it('is not committed when it is not known what became of a publish', async () => {
    const { outbox } = await open({ query_timeout: 500 })
    await here.world.hand.query('BEGIN')
    await here.world.hand.query(`LOCK TABLE "${here.world.schema}".events`)
    const failing = outbox.transaction(async (tx) => {
      await expect(outbox.publish(tx, draft({ idempotencyKey: 'k' }))).rejects.toMatchObject(UNAVAILABLE)
      await here.world.hand.query('COMMIT')
    })
    await expect(failing).rejects.toMatchObject(UNAVAILABLE)
    expect(await stored()).toBe(0)
    await worksAgain(outbox)
  })

  it('that has failed before a nested one began is rolled back, and not more than that', async () => {
    const { outbox, pool } = await open()
    const pids: number[] = []
    pool.on('connect', (client) => pids.push((client as unknown as { processID: number }).processID))
    const failing = outbox.transaction(async (tx) => {
      await expect(tx.query('SELECT 1 / 0')).rejects.toMatchObject({ code: '22012' })
      await expect(outbox.transaction((inner) => write(inner))).rejects.toMatchObject({ name: 'StoreError' })
    })
    await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    await worksAgain(outbox)
    expect(pids).toHaveLength(1)
  })

  it('has nothing of a nested one that is used while it is rolled back', async () => {
    const { outbox } = await open()
    await outbox.transaction(async (tx) => {
      const refused: unknown[] = []
      const nested = outbox.transaction(async (inner) => {
        const insert = (n: number): void => {
          if (refused.length > 0) return
          try {
            write(inner, n).catch(() => undefined)
            setImmediate(insert, n + 1)
          } catch (error) {
            refused.push(error)
          }
        }
        insert(1)
        await inner.query('SELECT 1 / 0')
      })
      await expect(nested).rejects.toMatchObject({ code: '22012' })
      expect(refused).toMatchObject([{ code: 'POSTHASTE_TRANSACTION_ENDED' }])
      await tx.query('SELECT 1')
    })
    expect(await rows()).toBe(0)
  })

  const said: readonly [
    string,
    (outbox: Awaited<ReturnType<typeof open>>['outbox'], tx: pg.PoolClient) => unknown,
  ][] = [
    ['without a publish', () => undefined],
    [
      'after a publish and a statement',
      async (outbox, tx) => {
        await outbox.publish(tx, draft())
        await write(tx)
      },
    ],
  ]

  it.each(said)(
    'whose connection is lost before COMMIT did not happen, and that is known: %s',
    async (_, work) => {
      const { outbox } = await open()
      const failing = outbox.transaction(async (tx) => {
        const { rows: found } = await tx.query('SELECT pg_backend_pid() AS pid')
        await work(outbox, tx)
        const lost = once(tx, 'error')
        await here.world.hand.query('SELECT pg_terminate_backend($1)', [found[0].pid])
        await lost
      })
      await expect(failing).rejects.toMatchObject(UNAVAILABLE)
      expect([await rows(), await stored()]).toEqual([0, 0])
      await worksAgain(outbox)
    },
  )
})

/** A client of pg in what it answers; servers cannot be made to die in the middle of a COMMIT at will. */
class Answering extends EventEmitter {
  readonly connection = {
    stream: {},
    parsedStatements: {},
    parse: () => undefined,
    bind: () => undefined,
    execute: () => undefined,
    sync: () => undefined,
  }
  isThrownAway: boolean | undefined
  readonly #answer: (query: string | Group) => unknown

  constructor(answer: (query: string | Group) => unknown) {
    super()
    this.#answer = answer
  }

  query(query: string | Group, _values?: unknown, _callback?: unknown): unknown {
    if (typeof query === 'string' && query !== 'COMMIT')
      return this.isDead
        ? Promise.reject(new Error('Connection terminated unexpectedly'))
        : Promise.resolve({ command: query, rows: [] })
    return this.#answer(query)
  }

  isDead = false

  release(isThrownAway: boolean): void {
    this.isThrownAway = isThrownAway
  }
}

interface Group {
  readonly text: string
  handleCommandComplete(message: { readonly text: string }): void
  handleError(error: Error): void
}

const serverError = (code: string, severity: string): Error =>
  Object.assign(new Error('said so'), { code, severity })

const begin = async (client: Answering, hasEvent: boolean) => {
  const pool = Object.assign(new EventEmitter(), { connect: async () => client, end: async () => undefined })
  const transactions = pgTransactions(pool as unknown as pg.Pool)
  const transaction = await (transactions.begin?.() as Promise<OpenTransaction<pg.PoolClient>>)
  if (hasEvent) await transactions.executor(transaction.tx).defer?.('INSERT', [])
  return transaction
}

describe('a COMMIT that is answered', () => {
  const dying = [
    ['58030', 'PANIC'],
    ['53100', 'PANIC'],
    ['58000', 'FATAL'],
    ['25P04', 'FATAL'],
  ] as const

  it.each(
    dying.flatMap(([code, severity]) => [true, false].map((hasEvent) => ({ code, severity, hasEvent }))),
  )(
    'by a server that dies is not known to have happened: $severity $code, with an event: $hasEvent',
    async ({ code, severity, hasEvent }) => {
      const client: Answering = new Answering((query) => {
        client.isDead = true
        const error = serverError(code, severity)
        if (typeof query === 'string') return Promise.reject(error)
        query.handleCommandComplete({ text: 'INSERT 0 1' })
        queueMicrotask(() => query.handleError(error))
        return query
      })
      const transaction = await begin(client, hasEvent)
      await expect(transaction.commit()).rejects.toMatchObject(UNKNOWN)
      expect(client.isThrownAway).toBe(true)
    },
  )

  it.each([
    serverError('57P01', 'FATAL'),
    serverError('XX000', 'ERROR'),
    new Error('Connection terminated unexpectedly'),
  ])('has happened, whatever becomes of the connection then', async (error) => {
    const client = new Answering((query) => {
      if (typeof query === 'string') throw new Error('COMMIT goes with the event')
      query.handleCommandComplete({ text: 'INSERT 0 1' })
      query.handleCommandComplete({ text: 'COMMIT' })
      queueMicrotask(() => query.handleError(error))
      return query
    })
    const transaction = await begin(client, true)
    await transaction.commit()
    expect(client.isThrownAway).toBe(true)
  })

  it('comes to an end when what is around the client makes another query of it', async () => {
    const client = new Answering(async (query) => ({
      command: typeof query === 'string' ? query : query.text,
      rows: [],
    }))
    const transaction = await begin(client, true)
    await expect(transaction.commit()).rejects.toMatchObject({
      ...UNKNOWN,
      cause: { message: expect.stringContaining('made a query of its own') },
    })
    expect(client.isThrownAway).toBe(true)
  })
})
