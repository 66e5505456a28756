import { describe, expect, it } from 'vitest'
import { createWorld, deferred, type FakeTx } from './fixture.ts'
import { fine, type Hook, MOMENTS, pausing, turn, undo, withHooks } from './slow-savepoints.ts'

const event = (type: string) => ({ type, payload: { n: 1 } })

describe('a hook of the library', () => {
  for (const at of MOMENTS) {
    it(`publishes without waiting for the savepoint that waits for it (${at})`, async () => {
      for (const end of [undo, fine]) {
        let handle: FakeTx | undefined
        const hook: Hook = async (moment) => {
          if (moment === at) await world.outbox.publish(handle as FakeTx, event('hook'))
        }
        const world = createWorld({ transactions: withHooks(hook) })
        const { outbox, database, intake } = world
        await outbox.transaction(async (tx) => {
          handle = tx
          await outbox.transaction(end).catch(() => undefined)
        })
        const isOutside = at === 'begin' || at === 'ended'
        expect(database.rows).toHaveLength(end === fine || isOutside ? 1 : 0)
        // Of one that was undone nobody knows; no claim keeps the poller away.
        expect(intake.types).toEqual(end === fine ? ['hook'] : [])
        expect(intake.expected).toBe(end === fine ? 0 : 1)
        expect(database.inserts[0]?.deliveries.map(({ token }) => token)).toEqual([null])
      }
    })
  }

  it('publishes without waiting for it in a transaction of another outbox as well', async () => {
    const other = createWorld()
    const hook: Hook = (moment) =>
      moment === 'begin' &&
      other.outbox.transaction(() => world.outbox.publish(handle as FakeTx, event('hook')))
    let handle: FakeTx | undefined
    const world = createWorld({ transactions: withHooks(hook) })
    await world.outbox.transaction(async (tx) => {
      handle = tx
      await world.outbox.transaction(fine)
    })
    expect(world.intake.types).toEqual(['hook'])
  })

  it('that waits for a publish of somebody else hears after a while that it waits for itself', async () => {
    const [asked, alarm] = [deferred(), deferred<() => void>()]
    let handle: FakeTx | undefined
    let elsewhere: Promise<unknown> | undefined
    const hook: Hook = async (moment) => {
      if (moment !== 'begin') return
      asked.resolve()
      await turn()
      await elsewhere
    }
    const { outbox, runtime } = createWorld({ transactions: withHooks(hook) })
    Object.assign(runtime, { schedule: (_: number, fn: () => void) => alarm.resolve(fn) })
    const queue = asked.promise.then(() => {
      elsewhere = outbox.publish(handle as FakeTx, event('queued'))
      return elsewhere
    })
    const running = outbox.transaction(async (tx) => {
      handle = tx
      await outbox.transaction(fine)
    })
    ;(await alarm.promise)()
    const refused = {
      code: 'POSTHASTE_CONFLICT',
      message: expect.stringContaining('publish in the hook itself'),
    }
    await expect(queue).rejects.toMatchObject(refused)
    await expect(running).rejects.toMatchObject(refused)
  })

  it('lets nobody else pass', async () => {
    const pause = pausing('begin')
    const hook: Hook = async (moment) => {
      if (moment === 'begin') await world.outbox.publish(event('hook'))
      await pause.hook(moment)
    }
    const world = createWorld({ transactions: withHooks(hook) })
    const { outbox, database } = world
    await outbox.transaction(async (tx) => {
      const nested = outbox.transaction(fine)
      await pause.reached
      const beside = outbox.publish(tx, event('beside'))
      await turn()
      expect(database.log).toEqual(['insert hook'])
      pause.goOn()
      await Promise.all([beside, nested])
    })
    expect(database.log).toEqual(['insert hook', 'savepoint', 'insert beside', 'release', 'commit'])
  })

  it('nests nothing, and ends nothing, that would wait for it', async () => {
    for (const at of MOMENTS) {
      const waiting: Promise<unknown>[] = []
      const hook: Hook = async (moment) => {
        if (moment !== at) return
        waiting.push(beside())
        const conflict = { code: 'POSTHASTE_CONFLICT' }
        await expect(world.outbox.transaction(fine)).rejects.toMatchObject(conflict)
        await expect(transaction.commit()).rejects.toMatchObject(conflict)
        await expect(transaction.rollback()).rejects.toMatchObject(conflict)
      }
      const world = createWorld({ transactions: withHooks(hook) })
      const transaction = await world.outbox.begin()
      const called = deferred()
      // Called by somebody who is not the hook.
      const beside = () => {
        called.resolve()
        return published
      }
      const published = called.promise.then(() => transaction.publish(event('beside')))
      await transaction.run(() => world.outbox.transaction(fine))
      await Promise.all(waiting)
      await transaction.commit()
      expect(world.intake.types).toEqual(['beside'])
    }
  })

  it('that does not wait for its publish spoils the transaction when the nested one is undone', async () => {
    for (const end of [undo, fine]) {
      const gate = deferred()
      const hook: Hook = (moment) => {
        if (moment === 'begin') void world.outbox.publish(event('torn'))
      }
      const world = createWorld({ transactions: withHooks(hook) })
      const { outbox, database } = world
      database.gate = gate.promise
      const run = outbox.transaction(async () => {
        const nested = outbox.transaction(async () => {
          gate.resolve()
          await end()
        })
        await nested.catch(() => undefined)
      })
      if (end === fine) await run
      else await expect(run).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
      expect(database.rows).toHaveLength(end === fine ? 1 : 0)
    }
  })
})
