import { describe, expect, it } from 'vitest'
import { defineEvent } from '../../src/core/define-event.ts'
import { createWorld, deferred } from './fixture.ts'

const event = (type: string) => ({ type, payload: { n: 1 } })

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

    it(`[5] are refused beside each other: the undoing of one would take the other along, ${name}`, async () => {
      const { outbox, database, intake } = createWorld({ library: { ownNestedHandle } })
      const end = deferred()
      await outbox.transaction(async (tx) => {
        void outbox.publish(tx, event('before'))
        const first = outbox.transaction(async () => {
          await end.promise
          throw new Error('undo')
        })
        const second = outbox.transaction((inner) => outbox.publish(inner, event('beside')))
        await expect(second).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
        end.resolve()
        await expect(first).rejects.toThrow('undo')
        await outbox.transaction((inner) => outbox.publish(inner, event('afterwards')))
      })
      expect(database.rows.map((row) => row.event.type)).toEqual(['before', 'afterwards'])
      expect(intake.types).toEqual(['before', 'afterwards'])
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

  it('[8] that still run when the transaction fails end before it is rolled back', async () => {
    const { outbox, database } = createWorld()
    const [entered, goOn] = [deferred(), deferred()]
    const run = outbox.transaction(async () => {
      void outbox.transaction(async () => {
        entered.resolve()
        await goOn.promise
      })
      await entered.promise
      setImmediate(goOn.resolve)
      throw new Error('business')
    })
    await expect(run).rejects.toThrow('business')
    expect(database.log).toEqual(['savepoint', 'release', 'rollback'])
  })

  it('[8] that wait for a publish do not begin, nor are they waited for, when the transaction has failed', async () => {
    const { outbox, database } = createWorld()
    const answer = deferred<{ value: unknown }>()
    const schema = { '~standard': { version: 1, vendor: 'slow', validate: () => answer.promise } } as const
    const slow = defineEvent('slow', { schema })
    let nested: Promise<unknown> | undefined
    const run = outbox.transaction(async (tx) => {
      void outbox.publish(tx, slow({}))
      nested = outbox.transaction(async () => undefined)
      throw new Error('business')
    })
    await expect(run).rejects.toThrow('business')
    answer.resolve({ value: {} })
    await expect(nested).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
    expect(database.log).toEqual(['rollback'])
  })

  it('are refused inside of a schema, whose publish they would wait for', async () => {
    const { outbox } = createWorld()
    const validate = async (value: unknown) => {
      await outbox.transaction(() => undefined)
      return { value }
    }
    const asking = defineEvent('asking', {
      schema: { '~standard': { version: 1, vendor: 'nests', validate } },
    })
    const run = outbox.transaction((tx) => outbox.publish(tx, asking({})))
    await expect(run).rejects.toMatchObject({ cause: { code: 'POSTHASTE_CONFLICT' } })
  })

  it('are refused inside of pullEvents(), but not in a transaction of its own there', async () => {
    const [{ outbox }, other] = [createWorld(), createWorld()]
    const aggregate = (work: () => Promise<unknown>) => ({
      async pullEvents() {
        await work()
        return [event('pulled')]
      },
    })
    const nests = aggregate(() => outbox.transaction(() => undefined))
    const run = outbox.transaction((tx) => outbox.publishFrom(tx, nests))
    await expect(run).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    const apart = aggregate(() => other.outbox.transaction(() => other.outbox.transaction(() => undefined)))
    await outbox.transaction((tx) => outbox.publishFrom(tx, apart))
    expect(other.database.log).toEqual(['savepoint', 'release', 'commit'])
  })

  it('refuse the end of the transaction that they are in, which would wait for them', async () => {
    const { outbox, database } = createWorld()
    const transaction = await outbox.begin()
    await transaction.run(() =>
      outbox.transaction(async () => {
        for (const end of [transaction.commit, transaction.rollback])
          await expect(end()).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
      }),
    )
    await transaction.commit()
    expect(database.log).toEqual(['savepoint', 'release', 'commit'])
  })

  it('are refused in whatever way a publish that waits for them comes to begin them, and not when it is over', async () => {
    const { outbox } = createWorld()
    const transaction = await outbox.begin()
    let later: Promise<unknown> | undefined
    const over = deferred()
    const validate = async (value: unknown) => {
      const nest = () => outbox.transaction(() => undefined)
      await expect(transaction.run(nest)).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
      await expect(transaction.commit()).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
      later = over.promise.then(() => transaction.run(nest))
      return { value }
    }
    const asking = defineEvent('asking', {
      schema: { '~standard': { version: 1, vendor: 'nests', validate } },
    })
    await transaction.publish(asking({}))
    over.resolve()
    await later
    await transaction.commit()
  })

  it('leave rollback() and the end of a block to a schema, because neither waits for its publish', async () => {
    for (const how of ['rollback', Symbol.asyncDispose] as const) {
      const { outbox, database } = createWorld()
      const transaction = await outbox.begin()
      const validate = async (value: unknown) => {
        await transaction[how]()
        return { value }
      }
      const asking = defineEvent('asking', {
        schema: { '~standard': { version: 1, vendor: 'ends', validate } },
      })
      await expect(transaction.publish(asking({}))).rejects.toMatchObject({
        code: 'POSTHASTE_TRANSACTION_ENDED',
      })
      expect(database.log).toEqual(['rollback'])
    }
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
