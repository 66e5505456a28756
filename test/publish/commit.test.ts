import { describe, expect, it } from 'vitest'
import { StoreError } from '../../src/core/errors.ts'
import { createWorld } from './fixture.ts'

const event = (type: string) => ({ type, payload: { n: 1 } })

describe('a transaction', () => {
  it('stores the event with the data and offers it after the commit, not before', async () => {
    const { outbox, database, intake, runtime } = createWorld()
    const id = await outbox.transaction(async (tx) => {
      const published = await outbox.publish(tx, event('a'))
      expect(intake.offered).toEqual([])
      runtime.mono += 25
      return published
    })
    expect(database.rows.map((row) => row.event.id)).toEqual([id])
    expect(intake.offered).toHaveLength(1)
    const [hot] = intake.offered
    const [stored] = database.rows[0]?.deliveries ?? []
    expect(hot).toMatchObject({
      id: stored?.id,
      destination: 'local',
      token: stored?.token,
      committedAt: 1_025,
    })
    expect(hot?.token?.slice(-12)).toBe(intake.workerId.slice(-12))
    expect(hot?.claimedUntil).toBe(1_000 + 30_000)
  })

  it('offers nothing after a rollback', async () => {
    const { outbox, database, intake } = createWorld()
    const failure = new Error('business')
    const run = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event('a'))
      throw failure
    })
    await expect(run).rejects.toBe(failure)
    expect(database.rows).toEqual([])
    expect(intake.offered).toEqual([])
  })

  it.each(['rolledBack', 'unknown'] as const)(
    '[2][3] offers nothing when COMMIT answers %s',
    async (answer) => {
      const { outbox, database, intake } = createWorld()
      database.commitAnswer = answer
      await expect(outbox.transaction((tx) => outbox.publish(tx, event('a')))).rejects.toMatchObject({
        code: answer === 'unknown' ? 'POSTHASTE_COMMIT_UNKNOWN' : 'POSTHASTE_COMMIT_ROLLED_BACK',
      })
      expect(intake.offered).toEqual([])
      expect(intake.expected).toBe(0)
    },
  )

  it('[9] offers nothing hot once an insert failed, because the database may have undone more than that', async () => {
    const { outbox, database, intake } = createWorld()
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, event('a'))
      database.failInsert = new Error('deadlock')
      await expect(outbox.publish(tx, event('b'))).rejects.toThrow('deadlock')
    })
    expect(intake.offered).toEqual([])
    expect(intake.expected).toBe(1)
  })

  describe('in which an insert left half of an event behind', () => {
    const half = new StoreError('POSTHASTE_STORE_BUSY', 'half', { isHalfStored: true })
    const refused = { code: 'POSTHASTE_COMMIT_ROLLED_BACK', cause: half }

    it('is rolled back, also where its function went on', async () => {
      const { outbox, database, intake } = createWorld()
      database.failInsert = half
      const run = outbox.transaction(async (tx) => {
        await expect(outbox.publish(tx, event('a'))).rejects.toBe(half)
        database.failInsert = null
        await outbox.publish(tx, event('b'))
      })
      await expect(run).rejects.toMatchObject(refused)
      expect([database.rows, intake.offered]).toEqual([[], []])
      expect(database.log.at(-1)).toBe('rollback')
    })

    it('is rolled back when it was begun by hand', async () => {
      const { outbox, database } = createWorld()
      const tx = await outbox.begin()
      database.failInsert = half
      await expect(outbox.publish(tx, event('a'))).rejects.toBe(half)
      await expect(tx.commit()).rejects.toMatchObject(refused)
      expect(database.log.at(-1)).toBe('rollback')
    })

    it('is rolled back when a nested one ended well over it', async () => {
      const { outbox, database } = createWorld()
      database.failInsert = half
      const run = outbox.transaction(() =>
        outbox.transaction(async (inner) => {
          await expect(outbox.publish(inner, event('a'))).rejects.toBe(half)
        }),
      )
      await expect(run).rejects.toMatchObject(refused)
    })

    it('is committed when that was undone with a nested one', async () => {
      const { outbox, database } = createWorld()
      await outbox.transaction(async (tx) => {
        database.failInsert = half
        const nested = outbox.transaction((inner) => outbox.publish(inner, event('a')))
        await expect(nested).rejects.toBe(half)
        database.failInsert = null
        await outbox.publish(tx, event('b'))
      })
      expect(database.rows.map((row) => row.event.type)).toEqual(['b'])
    })
  })

  it('[10] fails when its function ended the transaction itself', async () => {
    const { outbox, intake } = createWorld()
    const run = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event('a'))
      tx.active = false
    })
    await expect(run).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
    expect(intake.offered).toEqual([])
  })

  it('refuses a publish after the transaction was ended from inside', async () => {
    const { outbox } = createWorld()
    await outbox.transaction(async (tx) => {
      tx.active = false
      await expect(outbox.publish(tx, event('a'))).rejects.toMatchObject({
        code: 'POSTHASTE_TRANSACTION_ENDED',
      })
      tx.active = true
    })
  })

  it('forgets the first try when the library runs the function again', async () => {
    const { outbox, intake } = createWorld({
      transactions: (database) => ({
        library: 'retrying',
        async run(fn) {
          await fn({ rows: [], active: true })
          const tx = { rows: [], active: true }
          const result = await fn(tx)
          database.commit(tx)
          return result
        },
        executor: (tx) => tx,
        inTransaction: (tx) => tx.active,
      }),
    })
    let round = 0
    const undone: number[] = []
    await outbox.transaction((tx) => {
      round += 1
      const mine = round
      outbox.txContext.afterRollback(() => void undone.push(mine))
      return outbox.publish(tx, event(`try${round}`))
    })
    expect(intake.types).toEqual(['try2'])
    expect(undone).toEqual([1])
  })
})

describe('callbacks', () => {
  it('[7] that throw or reject are logged, and the caller still sees success', async () => {
    const { outbox, logged, intake } = createWorld()
    const done: string[] = []
    const result = await outbox.transaction(async () => {
      outbox.txContext.afterCommit(() => {
        throw new Error('sync')
      })
      outbox.txContext.afterCommit((() => Promise.reject(new Error('async'))) as () => void)
      outbox.txContext.afterCommit(() => void done.push('last'))
      outbox.txContext.afterRollback(() => void done.push('rollback'))
      await outbox.publish(event('a'))
      return 'value'
    })
    await Promise.resolve()
    expect(result).toBe('value')
    expect(done).toEqual(['last'])
    expect(intake.types).toEqual(['a'])
    expect(logged.map((line) => String(line.fields?.error))).toEqual(['Error: sync', 'Error: async'])
  })

  it('[7] an intake or a logger that throws does not turn a commit into a failure', async () => {
    const { outbox, intake } = createWorld()
    intake.offer = () => {
      throw new Error('broken')
    }
    await expect(outbox.transaction((tx) => outbox.publish(tx, event('a')))).resolves.toEqual(
      expect.any(String),
    )
  })

  it('follow the savepoint in which they were registered', async () => {
    const { outbox } = createWorld()
    const heard: string[] = []
    const { txContext } = outbox
    await outbox.transaction(async () => {
      await outbox
        .transaction(() => {
          txContext.afterCommit(() => void heard.push('never'))
          txContext.afterRollback(() => void heard.push('savepoint undone'))
          throw new Error('undo')
        })
        .catch(() => undefined)
      expect(heard).toEqual(['savepoint undone'])
      await outbox.transaction(() => txContext.afterCommit(() => void heard.push('committed')))
    })
    expect(heard).toEqual(['savepoint undone', 'committed'])
  })

  it('afterRollback runs after a rollback, and neither runs when the outcome is unknown', async () => {
    const { outbox, database } = createWorld()
    const heard: string[] = []
    const register = () => {
      outbox.txContext.afterCommit(() => void heard.push('commit'))
      outbox.txContext.afterRollback(() => void heard.push('rollback'))
    }
    await outbox
      .transaction(() => {
        register()
        throw new Error('undo')
      })
      .catch(() => undefined)
    expect(heard).toEqual(['rollback'])
    database.commitAnswer = 'unknown'
    await outbox.transaction(register).catch(() => undefined)
    expect(heard).toEqual(['rollback'])
  })
})
