import { describe, expect, it } from 'vitest'
import { defineEvent } from '../../src/core/define-event.ts'
import { createWorld, deferred, until } from './fixture.ts'

const event = (type: string) => ({ type, payload: { n: 1 } })

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
      await new Promise((resolve) => setImmediate(resolve))
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
