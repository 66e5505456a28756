import { describe, expect, it } from 'vitest'
import { createWorld, deferred, type FakeTx, until } from './fixture.ts'

const event = (type: string) => ({ type, payload: { n: 1 } })

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

  it.each([
    [undefined, 'undefined was given'],
    ['tx', 'string was given'],
    [event('swapped'), 'an event was given'],
    [{ active: false }, 'is no handle of'],
  ])('that are none are refused with what they are: %j', async (handle, said) => {
    const { outbox } = createWorld({ library: { tells: true } })
    const refused = outbox.publish(handle as never, event('a'))
    await expect(refused).rejects.toThrow(said)
    await expect(refused).rejects.toMatchObject({ code: 'POSTHASTE_NO_TRANSACTION' })
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

  it('are looked for without a handle in the outbox that is asked, however transactions of several enclose each other', async () => {
    const [shop, bank] = [createWorld(), createWorld()]
    await shop.outbox.transaction(async () => {
      await shop.outbox.publish(event('outside'))
      await bank.outbox.transaction(async () => {
        await bank.outbox.publish(event('paid'))
        await shop.outbox.publish(event('inside'))
        await shop.outbox.transaction(async () => {
          await bank.outbox.publish(event('booked'))
          await shop.outbox.publish(event('nested'))
        })
      })
      await expect(bank.outbox.publish(event('late'))).rejects.toMatchObject({
        code: 'POSTHASTE_NO_TRANSACTION',
      })
    })
    expect(shop.intake.types).toEqual(['outside', 'inside', 'nested'])
    expect(bank.intake.types).toEqual(['paid', 'booked'])
  })
})
