import { describe, expect, it } from 'vitest'
import { defineEvent } from '../../src/core/define-event.ts'
import { createWorld, deferred, type FakeTx, until } from './fixture.ts'

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
    expect(hot?.token).toEqual(expect.any(String))
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

describe('savepoints', () => {
  for (const ownNestedHandle of [false, true]) {
    const name = ownNestedHandle ? 'with handles of their own' : 'on the same handle'

    it(`[5] forget what they published when rolled back, ${name}`, async () => {
      const { outbox, database, intake } = createWorld({ library: { ownNestedHandle } })
      await outbox.transaction(async (tx) => {
        await outbox.publish(tx, event('before'))
        const nested = outbox.transaction(async (inner) => {
          await outbox.publish(inner, event('lost'))
          await outbox.transaction((deeper) => outbox.publish(deeper, event('lost too')))
          throw new Error('undo')
        })
        await expect(nested).rejects.toThrow('undo')
        await outbox.transaction((inner) => outbox.publish(inner, event('kept')))
        await outbox.publish(tx, event('after'))
      })
      expect(intake.types).toEqual(['before', 'kept', 'after'])
      expect(database.rows.map((row) => row.event.type)).toEqual(['before', 'kept', 'after'])
    })

    it(`[5] own what is published on the outer handle while they are open, ${name}`, async () => {
      const { outbox, database, intake } = createWorld({ library: { ownNestedHandle } })
      await outbox.transaction(async (tx) => {
        const nested = outbox.transaction(async () => {
          await outbox.publish(tx, event('physically inside'))
          throw new Error('undo')
        })
        await expect(nested).rejects.toThrow('undo')
      })
      expect(database.rows).toEqual([])
      expect(intake.offered).toEqual([])
    })

    it(`refuse a publish that comes after their end, ${name}`, async () => {
      const { outbox, intake } = createWorld({ library: { ownNestedHandle } })
      const later = deferred()
      await outbox.transaction(async () => {
        let late: Promise<unknown> | undefined
        await outbox.transaction(async (inner) => {
          late = later.promise.then(() => outbox.publish(inner, event('late')))
        })
        later.resolve()
        await expect(late).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
      })
      expect(intake.offered).toEqual([])
    })
  }

  it('begin after an insert that is on its way, so that they do not swallow it', async () => {
    const { outbox, database, intake } = createWorld()
    const gate = deferred()
    database.gate = gate.promise
    await outbox.transaction(async (tx) => {
      const outer = outbox.publish(tx, event('outer'))
      const nested = outbox.transaction(async () => {
        throw new Error('undo')
      })
      setTimeout(gate.resolve, 5)
      await expect(nested).rejects.toThrow('undo')
      await outer
    })
    expect(database.log).toEqual(['insert outer', 'savepoint', 'rollback to', 'commit'])
    expect(intake.types).toEqual(['outer'])
  })

  it('wait for a publish that nobody awaited', async () => {
    const { outbox, database, intake } = createWorld()
    const gate = deferred()
    database.gate = gate.promise
    await outbox.transaction(async () => {
      setTimeout(gate.resolve, 5)
      await outbox.transaction((inner) => {
        void outbox.publish(inner, event('a'))
      })
    })
    expect(database.log).toEqual(['savepoint', 'insert a', 'release', 'commit'])
    expect(intake.types).toEqual(['a'])
  })

  it('are refused, with advice, where the library has none', async () => {
    const { outbox } = createWorld({ library: { savepoints: false } })
    const run = outbox.transaction(() => outbox.transaction(async () => undefined))
    await expect(run).rejects.toMatchObject({
      code: 'POSTHASTE_UNSUPPORTED',
      message: expect.stringContaining('fake-orm'),
    })
  })

  it('agree with a model of nested transactions, whatever fails', async () => {
    for (let seed = 1; seed <= 100; seed++) {
      const { outbox, database, intake } = createWorld({ library: { ownNestedHandle: seed % 2 === 0 } })
      let state = seed
      const chance = (percent: number): boolean => {
        state = (Math.imul(state, 48_271) >>> 0) % 2_147_483_647
        return state % 100 < percent
      }
      let count = 0
      const level = async (depth: number): Promise<void> => {
        for (let step = 0; step < 4; step++) {
          if (chance(50)) await outbox.publish(event(`e${count++}`))
          else if (depth < 3) await outbox.transaction(() => level(depth + 1)).catch(() => undefined)
        }
        if (chance(35)) throw new Error('undo')
      }
      await outbox.transaction(() => level(0)).catch(() => undefined)
      expect(intake.types).toEqual(database.rows.map((row) => row.event.type))
    }
  })
})

describe('a publish that nobody awaited', () => {
  it('[8] is waited for before the commit', async () => {
    const { outbox, database, intake } = createWorld()
    const gate = deferred()
    database.gate = gate.promise
    await outbox.transaction((tx) => {
      void outbox.publish(tx, event('a'))
      setTimeout(gate.resolve, 5)
    })
    expect(database.log).toEqual(['insert a', 'commit'])
    expect(intake.types).toEqual(['a'])
  })

  it('[8] fails the transaction when it fails, and the process hears of it once', async () => {
    const { outbox, database } = createWorld()
    const gate = deferred()
    database.gate = gate.promise
    const run = outbox.transaction((tx) => {
      void outbox.publish(tx, event('a'))
      setTimeout(() => {
        database.failInsert = new Error('disk full')
        gate.resolve()
      }, 5)
    })
    await expect(run).rejects.toThrow('disk full')
    expect(database.log).toEqual(['insert a', 'rollback'])
  })

  it('[8] does not land after the rollback', async () => {
    const { outbox, database } = createWorld()
    const gate = deferred()
    database.gate = gate.promise
    const run = outbox.transaction(async (tx) => {
      void outbox.publish(tx, event('a'))
      await until(() => database.sent === 1)
      setTimeout(gate.resolve, 5)
      throw new Error('business')
    })
    await expect(run).rejects.toThrow('business')
    expect(database.log).toEqual(['insert a', 'rollback'])
  })

  it('[8] does not land after the rollback of its savepoint', async () => {
    const { outbox, database, intake } = createWorld()
    const gate = deferred()
    database.gate = gate.promise
    await outbox.transaction(async () => {
      const nested = outbox.transaction(async (tx) => {
        void outbox.publish(tx, event('a'))
        await until(() => database.sent === 1)
        setTimeout(gate.resolve, 5)
        throw new Error('undo')
      })
      await expect(nested).rejects.toThrow('undo')
    })
    expect(database.log).toEqual(['savepoint', 'insert a', 'rollback to', 'commit'])
    expect(intake.offered).toEqual([])
  })

  it('[8] is not sent any more when the transaction fails while its schema is still thinking', async () => {
    const { outbox, database } = createWorld()
    const answer = deferred<{ value: unknown }>()
    const schema = { '~standard': { version: 1, vendor: 'slow', validate: () => answer.promise } } as const
    const slow = defineEvent('slow', { schema })
    let late: Promise<unknown> | undefined
    const run = outbox.transaction((tx) => {
      late = outbox.publish(tx, slow({}))
      throw new Error('business')
    })
    await expect(run).rejects.toThrow('business')
    answer.resolve({ value: {} })
    await expect(late).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
    expect(database.log).toEqual(['rollback'])
  })

  it('[8] is not sent while a failed transaction waits for another one’s answer, and nobody hears of it twice', async () => {
    const { outbox, database } = createWorld()
    const gate = deferred()
    const answer = deferred<{ value: unknown }>()
    database.gate = gate.promise
    const schema = { '~standard': { version: 1, vendor: 'slow', validate: () => answer.promise } } as const
    const slow = defineEvent('slow', { schema })
    const run = outbox.transaction(async (tx) => {
      void outbox.publish(tx, event('a'))
      void outbox.publish(tx, slow({}))
      await until(() => database.sent === 1)
      setTimeout(() => answer.resolve({ value: {} }), 2)
      setTimeout(gate.resolve, 10)
      throw new Error('business')
    })
    await expect(run).rejects.toThrow('business')
    expect(database.log).toEqual(['insert a', 'rollback'])
  })

  it('[8] is refused between the end of a savepoint’s function and its release', async () => {
    const { outbox, database } = createWorld()
    const gate = deferred()
    const returned = deferred()
    database.releaseGate = gate.promise
    await outbox.transaction(async () => {
      let late: Promise<unknown> | undefined
      const nested = outbox.transaction((inner) => {
        late = returned.promise.then(() => outbox.publish(inner, event('late')))
      })
      await new Promise((resolve) => setTimeout(resolve, 5))
      returned.resolve()
      await expect(late).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
      gate.resolve()
      await nested
    })
    expect(database.log).toEqual(['savepoint', 'release', 'commit'])
  })

  it('[8] is refused when it begins after the function returned', async () => {
    const { outbox, database } = createWorld()
    const returned = deferred()
    let late: Promise<unknown> | undefined
    await outbox.transaction((tx) => {
      late = returned.promise.then(() => outbox.publish(tx, event('late')))
      late.catch(() => undefined)
    })
    returned.resolve()
    await expect(late).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
    expect(database.rows).toEqual([])
  })
})

describe('handles', () => {
  it('[8] of a transaction that is over are refused', async () => {
    for (const tells of [true, false]) {
      const { outbox } = createWorld({ library: { tells } })
      let kept: unknown
      await outbox.transaction(async (tx) => {
        kept = tx
      })
      await expect(outbox.publish(kept as never, event('late'))).rejects.toMatchObject({
        code: 'POSTHASTE_TRANSACTION_ENDED',
      })
    }
  })

  it('[6] that are used again carry nothing over from the transaction before', async () => {
    const { outbox, intake, database } = createWorld({ library: { sharedHandle: true } })
    const first = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event('rolled back'))
      throw new Error('undo')
    })
    await expect(first).rejects.toThrow('undo')
    await outbox.transaction((tx) => outbox.publish(tx, event('second')))
    expect(intake.types).toEqual(['second'])
    expect(database.rows.map((row) => row.event.type)).toEqual(['second'])
  })

  it('[6] that are used again refuse late code of the transaction before', async () => {
    const { outbox, intake } = createWorld({ library: { sharedHandle: true } })
    const second = deferred()
    let late: Promise<unknown> | undefined
    await outbox.transaction((tx) => {
      late = second.promise.then(() => outbox.publish(tx, event('late')))
      late.catch(() => undefined)
    })
    await outbox.transaction(async (tx) => {
      second.resolve()
      await expect(late).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
      await outbox.publish(tx, event('mine'))
    })
    expect(intake.types).toEqual(['mine'])
  })

  it('[6] that the next transaction has already are not taken away by the end of the one before', async () => {
    const secondRuns = deferred()
    const handle: FakeTx = { rows: [], active: true }
    let runs = 0
    const { outbox, intake } = createWorld({
      transactions: () => ({
        library: 'one connection',
        async run(fn) {
          runs += 1
          const first = runs === 1
          const result = await fn(handle)
          // The connection is free as soon as COMMIT was answered, before the first caller hears of it.
          if (first) await secondRuns.promise
          return result
        },
        executor: (tx) => tx,
        inTransaction: () => true,
      }),
    })
    const first = outbox.transaction((tx) => outbox.publish(tx, event('first')))
    await until(() => runs === 1)
    await outbox.transaction(async (tx) => {
      secondRuns.resolve()
      await first
      await outbox.publish(tx, event('second'))
    })
    expect(intake.types).toEqual(['first', 'second'])
    expect(intake.offered.every((hot) => hot.token !== null)).toBe(true)
  })

  it('whose library will not say when they end stay unobserved', async () => {
    const { outbox, intake, database, transactions } = createWorld()
    transactions.observe = () => false
    const tx = { rows: [], active: true }
    await outbox.publish(tx, event('a'))
    await outbox.publish(tx, event('b'))
    database.commit(tx)
    expect(database.rows.flatMap((row) => row.deliveries.map((delivery) => delivery.token))).toEqual([
      null,
      null,
    ])
    expect(intake.expected).toBe(2)
  })

  it('without a transaction are refused with advice', async () => {
    const { outbox } = createWorld()
    const idle = { rows: [], active: false }
    const refused = outbox.publish(idle, event('a'))
    await expect(refused).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
    await expect(refused).rejects.toThrow(/fake-orm.*outbox\.transaction/s)
    await expect(outbox.publish(undefined as never, event('a'))).rejects.toMatchObject({
      code: 'POSTHASTE_NO_TRANSACTION',
    })
    await expect(outbox.publish(event('a'))).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
  })

  it('of a user’s own transaction publish unclaimed and make the poller look sooner', async () => {
    const { outbox, intake, database } = createWorld()
    const tx = { rows: [], active: true }
    await outbox.publish(tx, event('a'))
    database.commit(tx)
    expect(database.rows[0]?.deliveries[0]?.token).toBeNull()
    expect(intake.offered).toEqual([])
    expect(intake.expected).toBe(1)
  })

  it('of a library with commit hooks are observed', async () => {
    const hooks = new Map<object, { committed(): void; rolledBack(): void }>()
    const { outbox, intake, transactions } = createWorld()
    transactions.observe = (tx, ended) => {
      if (tx.rows.length > 50) return false
      hooks.set(tx, ended)
      return true
    }
    const good = { rows: [], active: true }
    await outbox.publish(good, event('a'))
    await outbox.publish(good, event('b'))
    expect(intake.offered).toEqual([])
    hooks.get(good)?.committed()
    expect(intake.types).toEqual(['a', 'b'])
    expect(intake.offered.every((hot) => hot.token !== null)).toBe(true)
    const bad = { rows: [], active: true }
    await outbox.publish(bad, event('c'))
    hooks.get(bad)?.rolledBack()
    expect(intake.types).toEqual(['a', 'b'])
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
