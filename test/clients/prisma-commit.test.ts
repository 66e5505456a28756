/** What the client makes of a COMMIT that SQLite answers with an error, by the code that an adapter has of it. */
import { describe, expect, it } from 'vitest'
import { type PrismaDatabase, type PrismaTransaction, prismaTransactions } from '../../src/clients/prisma.ts'
import { openPrisma } from './libraries/prisma.ts'
import { open } from './outbox-on.ts'

const event = { type: 'a', payload: 1 }
const ROLLED_BACK = { code: 'POSTHASTE_COMMIT_ROLLED_BACK' }
const UNKNOWN = { code: 'POSTHASTE_COMMIT_UNKNOWN' }
const TOO_LATE = { ...UNKNOWN, detail: { hadEnded: true } }

/** A client of Prisma whose COMMIT its adapter has refused with this code. */
const refusing = (originalCode: string): PrismaDatabase<PrismaTransaction> => {
  const cause = { kind: 'sqlite', originalCode, originalMessage: 'no' }
  const id = { [Symbol.for('prisma.client.transaction.id')]: 'one' }
  const answers = { $executeRawUnsafe: async () => 0, $queryRawUnsafe: async () => [] }
  const tx = { ...id, ...answers, $transaction: async () => undefined }
  const prisma = {
    _activeProvider: 'sqlite',
    $transaction: async (fn: (handle: object) => Promise<unknown>) => {
      await fn(tx)
      throw Object.assign(new Error('no'), { cause })
    },
  }
  return prisma as unknown as PrismaDatabase<PrismaTransaction>
}

describe('an error of COMMIT from Prisma on SQLite', () => {
  it.each([
    ['1', TOO_LATE],
    ['5', ROLLED_BACK],
    ['787', ROLLED_BACK],
    ['SQLITE_ERROR', TOO_LATE],
    ['SQLITE_BUSY', ROLLED_BACK],
    ['SQLITE_CONSTRAINT_FOREIGNKEY', ROLLED_BACK],
  ])('%s', async (code, said) => {
    await expect(prismaTransactions(refusing(code)).run(async () => undefined)).rejects.toMatchObject(said)
  })

  it.each(['10', 'SQLITE_IOERR_FSYNC'])('%s: of the disk, so nobody knows', async (code) => {
    const running = prismaTransactions(refusing(code)).run(async () => undefined)
    await expect(running).rejects.toMatchObject(UNKNOWN)
    await expect(running).rejects.not.toMatchObject(TOO_LATE)
  })

  it.each([
    ['COMMIT', UNKNOWN, 1],
    ['ROLLBACK', ROLLED_BACK, 0],
  ])('after a %s by hand', async (sql, said, events) => {
    const { outbox, library, stored } = await open('sqlite', openPrisma)
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await library.exec(tx, sql)
    })
    await expect(running).rejects.toMatchObject(said)
    expect(await stored()).toBe(events)
  })
})
