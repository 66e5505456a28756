/** SQLite rolls a transaction back by itself. With Prisma on libsql everything behind that is refused. */
import { describe, expect, it } from 'vitest'
import { openPrisma } from './libraries/prisma.ts'
import { open } from './outbox-on.ts'

const event = { type: 'a', payload: 1 }
const ROLLED_BACK = { code: 'POSTHASTE_COMMIT_ROLLED_BACK' }
const ENDED = { code: 'POSTHASTE_TRANSACTION_ENDED' }

const openSqlite = async () => {
  const opened = await open('sqlite', openPrisma)
  const { database, library } = opened
  type Tx = Parameters<typeof library.exec>[0]
  const lose = async (tx: Tx): Promise<void> => {
    await database.deadlock?.((sql) => library.exec(tx, sql)).catch(() => undefined)
  }
  return { ...opened, lose }
}

describe('a transaction of Prisma that SQLite has rolled back, swallowed', () => {
  it('has no commit', async () => {
    const { outbox, stored, lose } = await openSqlite()
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event)
      await lose(tx)
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect(await stored()).toBe(0)
  })

  it('takes no event any more', async () => {
    const { outbox, library, stored, lose } = await openSqlite()
    const work = async (tx: Parameters<typeof lose>[0]): Promise<void> => {
      await outbox.publish(tx, event)
      await lose(tx)
      await expect(outbox.publish(tx, event)).rejects.toMatchObject(ROLLED_BACK)
      await outbox.publish(tx, { ...event, idempotencyKey: 'k' })
    }
    await expect(outbox.transaction(work)).rejects.toMatchObject(ROLLED_BACK)
    await expect(library.own(work)).rejects.toMatchObject(ROLLED_BACK)
    expect(await stored()).toBe(0)
  })

  it('nor a publish beside what ends it', async () => {
    const { database, outbox, library, stored } = await openSqlite()
    const running = outbox.transaction(async (tx) => {
      await library.exec(tx, 'INSERT INTO client_parents VALUES (1)')
      const ending = library.exec(tx, 'INSERT OR ROLLBACK INTO client_parents VALUES (1)')
      const [, published] = await Promise.allSettled([ending, outbox.publish(tx, event)])
      expect(published).toMatchObject({ status: 'rejected', reason: ROLLED_BACK })
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect([await stored(), await database.numbers()]).toEqual([0, []])
  })

  it('does not begin a nested one', async () => {
    const { outbox, stored, lose } = await openSqlite()
    let began = false
    const running = outbox.transaction(async (tx) => {
      await lose(tx)
      const nested = outbox.transaction(async (inner) => {
        began = true
        await outbox.publish(inner, event)
      })
      await expect(nested).rejects.toMatchObject(ROLLED_BACK)
    })
    await expect(running).rejects.toMatchObject(ROLLED_BACK)
    expect([began, await stored()]).toEqual([false, 0])
  })

  it('by hand: an event is refused in other words', async () => {
    const { outbox, library, stored } = await openSqlite()
    const running = outbox.transaction(async (tx) => {
      await library.exec(tx, 'ROLLBACK')
      await outbox.publish(tx, event)
    })
    await expect(running).rejects.toMatchObject(ENDED)
    expect(await stored()).toBe(0)
  })
})
