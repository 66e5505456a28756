import assert from 'node:assert/strict'
import { idsOf, OPERATOR, type StoreFixture, type Topic } from '../store-fixture.ts'

const storedAt = async (t: StoreFixture, eventId: string): Promise<number> =>
  (await t.store.inspection.event(eventId))!.event.createdAtMs

export const targetsTopic: Topic = {
  title: 'targets of operations',
  cases: {
    'a preview names what an operation would act on, in its order, and changes nothing': async (t) => {
      const me = await t.worker()
      const all = await t.publishMany(6, { key: 'k' })
      const [one, two, three, four, five, six] = all as [never, never, never, never, never, never]
      for (const dead of [two, one]) await t.dead(dead, me.right)
      for (const done of [three, four]) await t.done(done, me.right)
      const target = { destination: 'alpha', limit: 10 }
      const preview = (kind: 'redrive' | 'replay' | 'discard', more: object = {}) =>
        t.store.operations.preview(kind, { ...target, ...more })
      assert.deepEqual(await preview('redrive'), idsOf([one, two]))
      assert.deepEqual([...(await preview('replay'))].sort(), idsOf([three, four]).sort())
      assert.deepEqual(await preview('discard'), idsOf([one, two, five, six]))
      assert.deepEqual(await preview('redrive', { limit: 1 }), idsOf([one]))
      assert.deepEqual(await preview('redrive', { type: 'other' }), [])
      await assert.rejects(t.store.operations.preview('redrive', { limit: 10 }))
      assert.deepEqual(await t.store.inspection.audit({ limit: 1 }), [])
      assert.equal(await t.store.operations.redrive(target, OPERATOR), 2)
    },

    'a target can be the time at which events were stored': async (t) => {
      const me = await t.worker()
      const first = await t.publish()
      // Times are told in milliseconds, and kept more precisely by some.
      const start = (await storedAt(t, first.event.id)) - 1
      let later = first
      await t.until(1_000, 'the clock goes on', async () => {
        later = await t.publish()
        return (await storedAt(t, later.event.id)) > start + 3
      })
      const between = (await storedAt(t, later.event.id)) - 1
      for (const one of [first, later]) await t.dead(one, me.right)
      const preview = (target: object) =>
        t.store.operations.preview('redrive', { destination: 'alpha', limit: 10, ...target })
      assert.deepEqual(await preview({ storedFromMs: start }), idsOf([first, later]))
      assert.deepEqual(await preview({ storedFromMs: between }), idsOf([later]))
      assert.deepEqual(await preview({ storedBeforeMs: between }), idsOf([first]))
      assert.deepEqual(await preview({ storedFromMs: between + 1_000 }), [])
      const target = { storedFromMs: start, storedBeforeMs: between, limit: 10 }
      assert.equal(await t.store.operations.redrive(target, OPERATOR), 1)
    },

    'a replay can be limited to one destination, key, type and time': async (t) => {
      const me = await t.worker()
      const wanted = await t.publish({ key: 'k', type: 'a' })
      const others = [
        await t.publish({ key: 'k', type: 'b' }),
        await t.publish({ key: 'l', type: 'a' }),
        await t.publish({ key: 'k', type: 'a', destination: 'beta' }),
      ]
      for (const one of [wanted, ...others]) await t.done(one, me.right)
      const start = await storedAt(t, wanted.event.id)
      const target = { destination: 'alpha', key: 'k', type: 'a', storedFromMs: start - 1, limit: 10 }
      assert.deepEqual(await t.store.operations.preview('replay', target), idsOf([wanted]))
      assert.equal(await t.store.operations.replay(target, OPERATOR), 1)
      assert.equal(await t.store.operations.replay(target, OPERATOR), 0)
      const { fresh } = await t.read()
      assert.deepEqual(
        fresh.map(({ event, run }) => [event?.id, run]),
        [[wanted.event.id, 2]],
      )
      assert.deepEqual(await t.readableIds('beta'), [])
    },
  },
}
