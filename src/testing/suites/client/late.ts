import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createOutbox } from '../../../core/outbox.ts'
import type { Store } from '../../../core/spi/index.ts'
import type { ClientFixture, ClientTopic } from '../client-fixture.ts'
import { checkedEvent, slowEvent } from './slow-event.ts'

const BUSINESS = new Error('business')

type Publish = (tx: unknown, n: number) => Promise<unknown>

/** Publishes, and something beside them that fails at once. */
const failBeside = async (
  t: ClientFixture,
  tx: unknown,
  numbers: readonly number[],
  all: Promise<unknown>[],
  ways: readonly Publish[],
): Promise<void> => {
  await t.harness.write(tx, numbers[0] as number)
  const here = ways.flatMap((publish) => numbers.map((n) => publish(tx, n)))
  all.push(...here)
  await Promise.all([...here, Promise.reject(BUSINESS)])
}

const onceAndPlain = (t: ClientFixture): readonly Publish[] => [
  (tx, n) => t.publish(tx, `e${n}`, { idempotencyKey: `k${n}` }),
  (tx, n) => t.publish(tx, `f${n}`),
]

/** A publish that must not succeed any more. */
const isRefused = async (t: ClientFixture, publish: Promise<unknown>): Promise<void> => {
  if (t.harness.keepsLateStatements !== true) await assert.rejects(publish)
}

const isBusiness = (error: unknown): boolean => error === BUSINESS

const nestingOf = (t: ClientFixture) => t.need('ownNested', 'the library has no nested transactions')

/** The outer transaction goes on, and keeps what is its own. */
const failNested = async (
  t: ClientFixture,
  outer: (fn: (tx: unknown) => Promise<void>) => Promise<unknown>,
): Promise<void> => {
  const nest = nestingOf(t)
  const all: Promise<unknown>[] = []
  await outer(async (tx) => {
    await t.both(tx, 1)
    await assert.rejects(nest(tx, (inner) => failBeside(t, inner, [2, 3, 4], all, onceAndPlain(t))))
    await Promise.allSettled(all)
    await t.both(tx, 5)
  })
  await t.expectOnly(1, 5)
}

/** What a publish that waits must not do: be stored after what it belongs to was rolled back. */
export const lateTopic: ClientTopic = {
  title: 'a publish that is still on its way',
  cases: {
    'when something beside it fails is not stored': async (t) => {
      const all: Promise<unknown>[] = []
      await assert.rejects(
        t.harness.own((tx) => failBeside(t, tx, [1, 2, 3], all, onceAndPlain(t))),
        isBusiness,
      )
      if (t.harness.keepsLateStatements !== true) await Promise.allSettled(all)
      await t.expectOnly()
      // Nor has it used its idempotency key up.
      await t.harness.own(async (tx) => {
        await t.harness.write(tx, 2)
        await t.publish(tx, 'e2', { idempotencyKey: 'k2' })
      })
      await t.expectOnly(2)
    },

    'when something beside it fails is not stored for others either': async (t) => {
      const { store, transactions } = t.harness
      // It knows no routes, so a worker looks for whatever it has left.
      const other = createOutbox({ store: store as Store<unknown, unknown>, transactions })
      await other.transaction((tx) => other.publish(tx, { type: 'e0', payload: 0 }))
      await t.hears('e0')
      const all: Promise<unknown>[] = []
      const ways: readonly Publish[] = [
        (tx, n) => other.publish(tx, { type: `e${n}`, payload: n }),
        (tx, n) => other.publish(tx, checkedEvent(`f${n}`, Promise.resolve())),
      ]
      for (let n = 1; n <= 5; n++) {
        await assert.rejects(
          t.harness.own((tx) => failBeside(t, tx, [n, n + 10, n + 20], all, ways)),
          isBusiness,
        )
      }
      if (t.harness.keepsLateStatements !== true) await Promise.allSettled(all)
      await t.settled()
      assert.deepEqual(t.types, ['e0'])
    },

    'because of its schema when something beside it fails is not stored': async (t) => {
      const all: Promise<unknown>[] = []
      const ways: readonly Publish[] = [
        (tx, n) => t.outbox.publish(tx, checkedEvent(`e${n}`, Promise.resolve())),
      ]
      for (let n = 1; n <= 5; n++) {
        await assert.rejects(
          t.harness.own((tx) => failBeside(t, tx, [n], all, ways)),
          isBusiness,
        )
      }
      if (t.harness.keepsLateStatements !== true) await Promise.allSettled(all)
      await t.expectOnly()
    },

    'when something beside it fails in a nested one of the library is not stored': (t) =>
      failNested(t, (fn) => t.harness.own(fn)),

    'nor in one inside of outbox.transaction': (t) => failNested(t, (fn) => t.outbox.transaction(fn)),

    'behind a statement of the application is not stored either': async (t) => {
      const nest = t.harness.ownNested?.bind(t.harness)
      const all: Promise<unknown>[] = []
      const fail = async (tx: unknown): Promise<void> => {
        const here = [t.harness.write(tx, 1), t.publish(tx, 'e1'), t.publish(tx, 'e2')]
        all.push(...here)
        await Promise.all([...here, Promise.reject(BUSINESS)])
      }
      await assert.rejects(t.harness.own(fail), isBusiness)
      if (nest !== undefined) await t.harness.own((tx) => assert.rejects(async () => await nest(tx, fail)))
      if (t.harness.keepsLateStatements !== true) await Promise.allSettled(all)
      await t.settled()
      assert.deepEqual(t.types, [])
    },

    'however many there are': async (t) => {
      const numbers = Array.from({ length: 30 }, (_, n) => n + 1)
      const nest = t.harness.ownNested?.bind(t.harness)
      const all: Promise<unknown>[] = []
      const fail = (tx: unknown) => failBeside(t, tx, numbers, all, onceAndPlain(t))
      const own = t.harness.own((tx) =>
        nest === undefined ? fail(tx) : assert.rejects(async () => await nest(tx, fail)),
      )
      await (nest === undefined ? assert.rejects(own, isBusiness) : own)
      if (t.harness.keepsLateStatements !== true) await Promise.allSettled(all)
      await t.expectOnly()
    },

    'because of its schema is not stored after a rollback': async (t) => {
      const { draft, answer } = slowEvent('e1')
      let publish: Promise<unknown> = Promise.resolve()
      await assert.rejects(
        t.harness.own(async (tx) => {
          await t.harness.write(tx, 1)
          publish = t.outbox.publish(tx, draft)
          publish.catch(() => undefined)
          throw BUSINESS
        }),
        isBusiness,
      )
      answer()
      await isRefused(t, publish)
      await t.expectOnly()
    },

    'because of its schema is not stored after its nested one was undone': async (t) => {
      const nest = nestingOf(t)
      const { draft, answer } = slowEvent('e2')
      let publish: Promise<unknown> = Promise.resolve()
      await t.harness.own(async (tx) => {
        await t.both(tx, 1)
        const nested = nest(tx, async (inner) => {
          await t.harness.write(inner, 2)
          publish = t.outbox.publish(inner, draft)
          publish.catch(() => undefined)
          throw BUSINESS
        })
        await assert.rejects(nested)
        answer()
        // The outer one is open, so whatever handle it was, something comes of it.
        await assert.rejects(publish)
        await t.both(tx, 3)
      })
      await t.expectOnly(1, 3)
    },

    'because of its schema is stored with the data': async (t) => {
      const slow = slowEvent('e2')
      await t.harness.own(async (tx) => {
        const publish = t.outbox.publish(tx, slow.draft)
        await t.both(tx, 1)
        slow.answer()
        await publish
        await t.harness.write(tx, 2)
      })
      await t.expectOnly(1, 2)
    },

    'called while the transaction is rolled back is not stored': async (t) => {
      t.needs(t.harness.keepsLateStatements !== true, 'the library sends it behind the rollback')
      const late: Promise<unknown>[] = []
      const numbers = Array.from({ length: 20 }, (_, n) => n)
      for (const n of numbers) {
        const fail = async (tx: unknown): Promise<void> => {
          const steps = async (): Promise<void> => {
            await t.harness.write(tx, n)
            await Promise.all(onceAndPlain(t).map((publish) => publish(tx, n)))
          }
          late.push(steps())
          await Promise.all([late.at(-1), Promise.reject(BUSINESS)])
        }
        await assert.rejects(t.harness.own(fail), isBusiness)
        await t.harness.own(async (tx) => void (await t.publish(tx, `e${n}`, { idempotencyKey: `k${n}` })))
      }
      await Promise.allSettled(late)
      await t.settled()
      // Nor does it keep the next try from being stored.
      assert.deepEqual(t.types.sort(), numbers.map((n) => `e${n}`).sort())
    },

    'does not take back what another try has stored': async (t) => {
      const late: Promise<unknown>[] = []
      const numbers = Array.from({ length: 20 }, (_, n) => n)
      for (const n of numbers) {
        const said = n % 2 === 0 ? { id: randomUUID() } : { idempotencyKey: `k${n}` }
        const fail = async (tx: unknown): Promise<void> => {
          const here = [t.harness.write(tx, n), t.publish(tx, `e${n}`, said)]
          late.push(...here)
          await Promise.all([...here, Promise.reject(BUSINESS)])
        }
        await assert.rejects(t.harness.own(fail), isBusiness)
        await t.harness.own(async (tx) => {
          await t.publish(tx, `e${n}`, said)
          // Long enough for the first to come to its end meanwhile.
          for (let row = 0; row < 10; row++) await t.harness.write(tx, n)
        })
      }
      if (t.harness.keepsLateStatements !== true) await Promise.allSettled(late)
      await t.settled()
      assert.deepEqual(t.types.sort(), numbers.map((n) => `e${n}`).sort())
    },

    'beside others with the same new key is stored once': async (t) => {
      const ids = new Set<string>()
      const thrice = async (tx: unknown, n: number): Promise<void> => {
        await t.harness.write(tx, n)
        const all = [1, 2, 3].map(() => t.publish(tx, `e${n}`, { idempotencyKey: 'new' }))
        for (const id of await Promise.all(all)) ids.add(id)
      }
      await t.outbox.transaction((tx) => thrice(tx, 1))
      await t.harness.own((tx) => thrice(tx, 2))
      assert.equal(ids.size, 2)
      await t.expectOnly(1, 2)
    },

    'beside others is stored, duplicates once': async (t) => {
      await t.outbox.transaction((tx) => t.publish(tx, 'known', { idempotencyKey: 'k' }))
      await t.harness.own(async (tx) => {
        const keyed = ['k', 'k', 'k2'].map((idempotencyKey) => t.publish(tx, 'known', { idempotencyKey }))
        const slow = slowEvent('slow')
        const all = [...keyed, t.publish(tx, 'a'), t.outbox.publish(tx, slow.draft), t.publish(tx, 'b')]
        slow.answer()
        await Promise.all(all)
      })
      await t.settled()
      assert.deepEqual(t.types.sort(), ['a', 'b', 'known', 'known', 'slow'])
    },
  },
}
