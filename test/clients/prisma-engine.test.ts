/** What the client of Prisma learns from Prisma's engine, and what it does without. */
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  type PrismaDatabase,
  type PrismaTransaction,
  type PrismaTransactionOptions,
  prismaTransactions,
} from '../../src/clients/prisma.ts'
import { createOutbox } from '../../src/index.ts'
import { openDatabase } from './databases.ts'
import { type Client, prismaOn } from './libraries/prisma.ts'

type Tx = PrismaTransaction

const event = { type: 'a', payload: 1 }
const ROLLED_BACK = { code: 'POSTHASTE_COMMIT_ROLLED_BACK' }

const open = async (
  seen: (prisma: Client) => PrismaDatabase<Tx> = (prisma) => prisma,
  options: PrismaTransactionOptions = {},
) => {
  const database = await openDatabase('postgres')
  const prisma = await prismaOn(database)
  const outbox = createOutbox({
    store: database.store,
    transactions: prismaTransactions(seen(prisma), options),
    migrate: true,
  })
  outbox.onAny(() => undefined)
  await outbox.start()
  onTestFinished(async () => {
    await outbox.close()
    await prisma.$disconnect()
    await database.dispose()
  })
  const stored = async (): Promise<number> => (await outbox.inspect.list({ limit: 100 })).deliveries.length
  const write = (tx: Tx, n: number): PromiseLike<number> =>
    tx.$executeRawUnsafe(`INSERT INTO ${database.rows} (n) VALUES (${n})`)
  const fail = (tx: Tx): PromiseLike<number> => tx.$executeRawUnsafe('SELECT no_such_column')
  return { outbox, stored, write, fail, numbers: () => database.numbers() }
}

/** As if the engine were kept somewhere else. */
const withoutEngine = (prisma: Client): PrismaDatabase<Tx> =>
  ({
    $transaction: prisma.$transaction.bind(prisma),
    _activeProvider: 'postgresql',
  }) as unknown as PrismaDatabase<Tx>

describe('Prisma', () => {
  it('sends what is asked at once in one request, of which every part may fail', async () => {
    const { outbox, stored, write, fail, numbers } = await open()
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await Promise.allSettled([write(tx, 1), fail(tx)])
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect([await stored(), await numbers()]).toEqual([0, []])
  })

  it('without an engine to look at: the database is asked before each commit', async () => {
    const { outbox, stored, write, fail, numbers } = await open(withoutEngine)
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await Promise.resolve(fail(tx)).catch(() => undefined)
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    await outbox.transaction(async (tx) => {
      await write(tx, 1)
      await outbox.publish(tx, event)
    })
    expect([await stored(), await numbers()]).toEqual([1, [1]])
  })

  it('ends a transaction that takes too long while its function still runs', async () => {
    const { outbox, stored, write, numbers } = await open(undefined, { timeout: 2_000 })
    const running = outbox.transaction(async (tx) => {
      await write(tx, 1)
      await outbox.publish(tx, event)
      await tx.$executeRawUnsafe('SELECT pg_sleep(2.5)')
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    const late = outbox.transaction(async (tx) => {
      await tx.$executeRawUnsafe('SELECT pg_sleep(2.5)')
      await outbox.publish(tx, event)
    })
    await expect(late).rejects.toMatchObject(ROLLED_BACK)
    await expect(late).rejects.toThrow('allow it more time')
    expect([await stored(), await numbers()]).toEqual([0, []])
  })
})
