/** Prisma sends together what is asked for in one turn, and stops at the first of it that fails. */
import { describe, expect, it, onTestFinished } from 'vitest'
import { prismaTransactions } from '../../src/clients/prisma.ts'
import { openDatabase } from './databases.ts'
import { openPrisma, prismaOn } from './libraries/prisma.ts'
import { open, openOutbox } from './outbox-on.ts'

const event = { type: 'a', payload: 1 }
const ROLLED_BACK = { code: 'POSTHASTE_COMMIT_ROLLED_BACK' }
const FAILING = 'SELECT no_such_column FROM no_such_table'

type Requests = Record<'request' | 'requestBatch', (queries: unknown, options: unknown) => Promise<unknown>>

/** An engine that answers statements which write to this table, and does not carry them out. */
const openWithout = async (table: string) => {
  const database = await openDatabase('sqlite')
  const prisma = await prismaOn(database)
  const engine = (prisma as unknown as { _engine: Requests })._engine
  const request = engine.request.bind(engine)
  let leftOut = 0
  engine.request = async (query, options) => {
    if (!JSON.stringify(query).includes(`INTO \\"${table}\\"`)) return await request(query, options)
    leftOut++
    return undefined
  }
  const { outbox, stored } = await openOutbox(database, prismaTransactions(prisma))
  onTestFinished(async () => {
    await outbox.close()
    await prisma.$disconnect()
    await database.dispose()
  })
  return { database, prisma, outbox, stored, leftOut: () => leftOut }
}

describe('a statement that Prisma leaves out because of another one', () => {
  it('is told of, where it is one of the application', async () => {
    const { database, library, outbox } = await open('sqlite', openPrisma)
    const write = `INSERT INTO ${database.rows} VALUES (1)`
    for (const run of [outbox.transaction.bind(outbox), library.own]) {
      await run(async (tx) => {
        const all = [library.exec(tx, FAILING), library.exec(tx, write), library.exec(tx, write)]
        const [failed, ...behind] = await Promise.allSettled(all)
        const reason = { name: 'LeftOut', cause: { code: (failed as PromiseRejectedResult).reason.code } }
        for (const one of behind) expect(one).toMatchObject({ status: 'rejected', reason })
      })
    }
    expect(await database.numbers()).toEqual([])
  })

  it('is not sent again where that one has ended the transaction', async () => {
    const { database, library, outbox, stored } = await open('mariadb', openPrisma)
    let calls = 0
    let beside: Promise<PromiseSettledResult<unknown>[]> | undefined
    const running = outbox.transaction(async (tx) => {
      const meeting = database.deadlock?.((sql) => {
        const answer = library.exec(tx, sql)
        // The first one only takes a lock.
        if (++calls === 2)
          beside = Promise.allSettled([
            outbox.publish(tx, event),
            outbox.publish(tx, { ...event, idempotencyKey: 'k' }),
          ])
        return answer
      })
      await expect(meeting).rejects.toThrow(/deadlock/i)
      const late = { status: 'rejected', reason: ROLLED_BACK }
      expect(await beside).toMatchObject([late, late])
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await stored()).toBe(0)
  })

  it('is given up in the end, and the transaction cannot be committed any more', async () => {
    const { database, prisma, outbox, stored, leftOut } = await openWithout('outbox_deliveries')
    const work = async (tx: typeof prisma): Promise<void> => {
      await tx.$executeRawUnsafe(`INSERT INTO ${database.rows} VALUES (1)`)
      await expect(outbox.publish(tx, event)).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    }
    await expect(outbox.transaction((tx) => work(tx as typeof prisma))).rejects.toMatchObject(ROLLED_BACK)
    expect(leftOut()).toBe(5)
    await expect(prisma.$transaction((tx) => work(tx as typeof prisma))).rejects.toMatchObject(ROLLED_BACK)
    expect([await stored(), await database.numbers()]).toEqual([0, []])
  })
})
