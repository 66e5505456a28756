/**
 * Prisma's engine ends the innermost of nested transactions, whoever asks. Our questions and the ends of an application must
 * not meet there, or a COMMIT comes of a rollback.
 */
import { describe, expect, it, onTestFinished } from 'vitest'
import { type PrismaDatabase, prismaTransactions } from '../../src/clients/prisma.ts'
import { type DatabaseName, openDatabase } from './databases.ts'
import { type Client, prismaOn } from './libraries/prisma.ts'
import { openOutbox } from './outbox-on.ts'

const event = { type: 'a', payload: 1 }
const BUSINESS = new Error('business')
const ENDED = { code: 'POSTHASTE_TRANSACTION_ENDED' }

type Tx = Parameters<Parameters<Client['$transaction']>[0]>[0]
type Transaction = (
  action: string,
  headers: unknown,
  about: { readonly newTxId?: unknown },
) => Promise<unknown>

/** What the engine is asked to begin or end, told when it is called and when it is answered. */
const listenTo = (prisma: Client) => {
  const engine = (prisma as unknown as { _engine: { transaction: Transaction } })._engine
  const transaction = engine.transaction.bind(engine)
  let tell: (what: string) => void = () => undefined
  engine.transaction = async (action, headers, about) => {
    const what = about.newTxId === undefined ? action : `nested ${action}`
    tell(`${what} called`)
    try {
      return await transaction(action, headers, about)
    } finally {
      tell(`${what} answered`)
    }
  }
  return (awaited: string) =>
    new Promise<void>((resolve) => {
      tell = (what) => {
        if (what === awaited) resolve()
      }
    })
}

/** As if the engine were kept somewhere else. */
const withoutEngine = (prisma: Client): PrismaDatabase<Tx> =>
  ({
    $transaction: prisma.$transaction.bind(prisma),
    _activeProvider: (prisma as unknown as { _activeProvider: string })._activeProvider,
  }) as unknown as PrismaDatabase<Tx>

const open = async (
  name: DatabaseName,
  seen: (prisma: Client) => PrismaDatabase<Tx> = (prisma) => prisma,
) => {
  const database = await openDatabase(name)
  const prisma = await prismaOn(database)
  const when = listenTo(prisma)
  const { outbox, stored } = await openOutbox(database, prismaTransactions(seen(prisma)))
  onTestFinished(async () => {
    await outbox.close()
    await prisma.$disconnect()
    await database.dispose()
  })
  const exec = async (tx: Tx, sql: string) => await tx.$executeRawUnsafe(sql)
  const write = (tx: Tx, n: number) => exec(tx, `INSERT INTO ${database.rows} (n) VALUES (${n})`)
  const fail = (tx: Tx) => exec(tx, 'SELECT no_such_column FROM no_such_table').catch(() => undefined)
  const kept = async () => ({ events: await stored(), rows: await database.numbers() })
  const runs = [
    (fn: (tx: Tx) => Promise<void>) => prisma.$transaction(fn),
    (fn: (tx: Tx) => Promise<void>) => outbox.transaction(fn),
  ]
  return { prisma, outbox, when, exec, write, fail, kept, runs }
}

const NOTHING = { events: 0, rows: [] }

describe.each(['sqlite', 'mariadb'] as const)('on %s, a question about the transaction', (name) => {
  it.each(['nested start called', 'nested start answered', 'commit called'])(
    'does not commit what fails meanwhile: %s',
    async (awaited) => {
      const { outbox, when, write, fail, kept, runs } = await open(name)
      for (const run of runs) {
        let late: readonly Promise<unknown>[] = []
        const running = run(async (tx) => {
          await write(tx, 1)
          const asked = when(awaited)
          late = [fail(tx), outbox.publish(tx, event).catch(() => undefined)]
          await asked
          throw BUSINESS
        })
        await expect(running).rejects.toBe(BUSINESS)
        await Promise.all(late)
        expect(await kept()).toEqual(NOTHING)
      }
    },
  )

  it('is not asked any more when the end has begun', async () => {
    const { prisma, outbox, when, write, fail, kept } = await open(name)
    let late: Promise<unknown> = Promise.resolve()
    const running = prisma.$transaction(async (tx) => {
      await write(tx, 1)
      const ending = when('rollback called')
      late = ending.then(() => Promise.all([fail(tx), outbox.publish(tx, event)]))
      late.catch(() => undefined)
      throw BUSINESS
    })
    await expect(running).rejects.toBe(BUSINESS)
    await expect(late).rejects.toMatchObject(ENDED)
    expect(await kept()).toEqual(NOTHING)
  })

  it('keeps no nested one of the application from beginning', async () => {
    const { outbox, when, write, fail, kept, runs } = await open(name)
    for (const [n, run] of runs.entries()) {
      await run(async (tx) => {
        const asked = when('nested start called')
        const beside = [fail(tx), outbox.publish(tx, event)]
        await asked
        await tx.$transaction((inner) => write(inner, n))
        await Promise.all(beside)
      })
    }
    expect(await kept()).toEqual({ events: 2, rows: [0, 1] })
  })

  it('is answered beside a nested one that is open', async () => {
    const { outbox, write, fail, kept, runs } = await open(name)
    for (const [n, run] of runs.entries()) {
      await run((tx) =>
        tx.$transaction(async (inner) => {
          await write(inner, n)
          await Promise.all([fail(tx), outbox.publish(tx, event)])
        }),
      )
    }
    await outbox.transaction(async (tx) => {
      await outbox.transaction(async (inner) => {
        await write(inner, 2)
        await Promise.all([fail(inner), outbox.publish(inner, event)])
        await Promise.all([fail(tx), outbox.publish(tx, event)])
      })
    })
    expect(await kept()).toEqual({ events: 4, rows: [0, 1, 2] })
  })
})

it('a publish that asks while Prisma ends the transaction, because it takes too long, is refused', async () => {
  const { prisma, outbox, when, exec, write, fail, kept } = await open('mariadb')
  const work = async (tx: Tx): Promise<void> => {
    await write(tx, 1)
    await fail(tx)
    const asked = when('nested start called')
    const refused = expect(outbox.publish(tx, event)).rejects.toThrow('allow it more time')
    await asked
    await Promise.all([exec(tx, 'SELECT SLEEP(2.5)'), refused])
  }
  await expect(prisma.$transaction(work, { timeout: 2_000 })).rejects.toMatchObject({ code: 'P2028' })
  expect(await kept()).toEqual(NOTHING)
})

it('without an engine to look at, a question does not commit what fails meanwhile either', async () => {
  const { prisma, outbox, write, fail, kept } = await open('sqlite', withoutEngine)
  for (let turns = 0; turns < 20; turns++) {
    let late: readonly Promise<unknown>[] = []
    const running = prisma.$transaction(async (tx) => {
      await write(tx, 1)
      late = [fail(tx), outbox.publish(tx, event).catch(() => undefined)]
      await late[0]
      for (let turn = 0; turn < turns; turn++) await Promise.resolve()
      throw BUSINESS
    })
    await expect(running).rejects.toBe(BUSINESS)
    await Promise.all(late)
  }
  expect(await kept()).toEqual(NOTHING)
})

describe.each(['sqlite', 'mariadb', 'postgres'] as const)('on %s, a nested transaction', (name) => {
  it('that nobody waits for does not commit the outer one, which fails', async () => {
    const { outbox, when, write, kept, runs } = await open(name)
    for (const run of runs) {
      let nested: Promise<unknown> = Promise.resolve()
      const running = run(async (tx) => {
        await write(tx, 1)
        await outbox.publish(tx, event)
        await new Promise<void>((entered) => {
          nested = tx.$transaction(async (inner) => {
            await write(inner, 2)
            const ending = when('rollback called')
            entered()
            await ending
          })
          nested.catch(() => undefined)
        })
        throw BUSINESS
      })
      await expect(running).rejects.toBe(BUSINESS)
      await expect(nested).rejects.toMatchObject(ENDED)
      expect(await kept()).toEqual(NOTHING)
    }
  })

  it('that cannot end well does not let the one around it commit them all', async () => {
    const { outbox, write, fail, kept, runs } = await open(name)
    const swallow = () => undefined
    for (const run of runs) {
      const running = run(async (tx) => {
        await write(tx, 1)
        const around = tx.$transaction(async (outer) => {
          await write(outer, 2)
          // PostgreSQL refuses to release its savepoint.
          await outer.$transaction((inner) => fail(inner).then(swallow)).catch(swallow)
          await outbox.publish(outer, event)
        })
        await around.catch(swallow)
        throw BUSINESS
      })
      await expect(running).rejects.toBe(BUSINESS)
      expect(await kept()).toEqual(NOTHING)
    }
  })

  it('that ends well while a publish in it is under way keeps the event as a whole', async () => {
    const { outbox, kept, runs } = await open(name)
    for (const run of runs) {
      await run(async (tx) => {
        let late: Promise<unknown> = Promise.resolve()
        await tx.$transaction(async (inner) => {
          late = outbox.publish(inner, event)
          late.catch(() => undefined)
        })
        await late
      })
    }
    expect(await kept()).toEqual({ events: 2, rows: [] })
  })

  it('that is undone between statements of one turn leaves none of them to the one around it', async () => {
    const { outbox, write, kept, runs } = await open(name)
    for (const run of runs) {
      await run(async (tx) => {
        let late: readonly Promise<unknown>[] = []
        const undone = tx.$transaction(async (inner) => {
          late = [write(inner, 1), outbox.publish(inner, event), outbox.publish(inner, event)]
          for (const one of late) one.catch(() => undefined)
          await new Promise((resolve) => setImmediate(resolve))
          throw BUSINESS
        })
        await expect(undone).rejects.toBe(BUSINESS)
        await Promise.allSettled(late)
      })
    }
    expect(await kept()).toEqual(NOTHING)
  })

  it('that is over takes no event for the one around it', async () => {
    const { outbox, write, kept, runs } = await open(name)
    for (const [n, run] of runs.entries()) {
      await run(async (tx) => {
        await write(tx, n)
        const handles: Tx[] = []
        const undone = tx.$transaction(async (inner) => {
          handles.push(inner)
          throw BUSINESS
        })
        await expect(undone).rejects.toBe(BUSINESS)
        await tx.$transaction(async (inner) => void handles.push(inner))
        for (const handle of handles) await expect(outbox.publish(handle, event)).rejects.toMatchObject(ENDED)
      })
    }
    expect(await kept()).toEqual({ events: 0, rows: [0, 1] })
  })
})
