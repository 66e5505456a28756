import assert from 'node:assert/strict'
import type { ClientFixture, ClientTopic } from '../client-fixture.ts'

/** Round trips of a transaction with this work in it. */
const costOf = (t: ClientFixture, work: (tx: unknown) => Promise<unknown>): Promise<number> =>
  t.need(
    'roundTrips',
    'counted on PostgreSQL alone: elsewhere a publish is more than one statement',
  )(() => t.outbox.transaction(work))

const extraOf = async (t: ClientFixture, publish: (tx: unknown) => Promise<unknown>): Promise<number> => {
  // Connections are made and types learned beforehand.
  await costOf(t, async (tx) => {
    await t.harness.write(tx, 0)
    await publish(tx)
  })
  const without = await costOf(t, (tx) => t.harness.write(tx, 1))
  const together = await costOf(t, async (tx) => {
    await t.harness.write(tx, 2)
    await publish(tx)
  })
  return together - without
}

export const costTopic: ClientTopic = {
  title: 'cost',
  cases: {
    'a publish is one round trip more, or none': async (t) => {
      assert.ok((await extraOf(t, (tx) => t.publish(tx, 'a'))) <= 1)
    },

    'so is a publish of many, and one with an idempotency key': async (t) => {
      const many = [1, 2, 3].map((n) => ({ type: 'a', payload: n }))
      assert.ok((await extraOf(t, (tx) => t.outbox.publishMany(tx, many))) <= 1)
      let n = 0
      assert.equal(await extraOf(t, (tx) => t.publish(tx, 'b', { idempotencyKey: `k${n++}` })), 1)
    },

    'a transaction without a publish costs what the library makes it cost': async (t) => {
      const roundTrips = t.need('roundTrips', 'counted on PostgreSQL alone')
      const work =
        (n: number) =>
        (tx: unknown): Promise<unknown> =>
          t.harness.write(tx, n)
      await roundTrips(() => t.outbox.transaction(work(1)))
      const own = await roundTrips(() => t.harness.own(async (tx) => void (await work(2)(tx))))
      assert.equal(await roundTrips(() => t.outbox.transaction(work(3))), own)
    },
  },
}
