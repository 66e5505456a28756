import assert from 'node:assert/strict'
import type { ClientFixture, ClientTopic } from '../client-fixture.ts'

type Work = (tx: unknown, n: number) => Promise<void>

/** All of them come to an end before the transaction does. */
const together = async (...all: readonly Promise<unknown>[]): Promise<void> => {
  for (const one of await Promise.allSettled(all)) if (one.status === 'rejected') throw one.reason
}

const failCaught = (t: ClientFixture, tx: unknown): Promise<unknown> =>
  t.harness.fail(tx).catch(() => undefined)

/** In transactions of both kinds. */
const inEach = async (t: ClientFixture, work: Work, before: readonly number[] = []): Promise<void> => {
  const kept = [...before]
  const runs = [() => t.outbox.transaction((tx) => work(tx, 1)), () => t.harness.own((tx) => work(tx, 2))]
  for (const [n, run] of runs.entries()) {
    if (t.harness.failureEndsTransaction) {
      await run().catch(() => undefined)
      continue
    }
    await run()
    kept.push(n + 1)
  }
  await t.expectOnly(...kept)
}

const besideFailure = (t: ClientFixture, publish: Work): Promise<void> =>
  inEach(t, async (tx, n) => {
    await t.harness.write(tx, n)
    await together(failCaught(t, tx), publish(tx, n))
  })

/** What is sent in one turn may travel together, and a library may stop at the first of it that fails. */
export const besideTopic: ClientTopic = {
  title: 'a publish beside a statement that fails, which is caught,',
  cases: {
    'is stored, unless the database gives the transaction up': (t) =>
      besideFailure(t, async (tx, n) => void (await t.publish(tx, `e${n}`))),

    'is stored with its idempotency key': async (t) => {
      const publish = async (tx: unknown, n: number) =>
        void (await t.publish(tx, `e${n}`, { idempotencyKey: `k${n}` }))
      await besideFailure(t, publish)
      if (t.harness.failureEndsTransaction) return
      await t.outbox.transaction((tx) => publish(tx, 1))
      await t.expectOnly(1, 2)
    },

    'is stored with all its events': async (t) => {
      await inEach(t, async (tx, n) => {
        await t.harness.write(tx, n)
        const events = [{ type: `e${n}`, payload: n }]
        await together(failCaught(t, tx), failCaught(t, tx), t.outbox.publishMany(tx, events))
      })
    },

    'is stored when that was another publish': async (t) => {
      const id = await t.outbox.transaction(async (tx) => {
        await t.harness.write(tx, 0)
        return await t.publish(tx, 'e0')
      })
      const work: Work = async (tx, n) => {
        await t.harness.write(tx, n)
        const taken = t.publish(tx, 'taken', { id }).catch(() => undefined)
        await together(taken, t.publish(tx, `e${n}`))
      }
      await inEach(t, work, [0])
    },

    'is stored as a whole when that comes in the middle of it': (t) =>
      inEach(t, async (tx, n) => {
        const failLater = async () => {
          await t.harness.write(tx, n)
          await failCaught(t, tx)
        }
        await together(failLater(), t.publish(tx, `e${n}`, { idempotencyKey: `k${n}` }))
      }),

    'is stored as a whole when it was called before': (t) =>
      inEach(t, async (tx, n) => {
        const failLater = async () => {
          await t.harness.write(tx, n)
          await failCaught(t, tx)
        }
        await together(t.publish(tx, `e${n}`), failLater())
      }),

    'is not stored when its nested transaction is undone meanwhile': async (t) => {
      const nest = t.need('ownNested', 'the library has no nested transactions')
      t.needs(!t.harness.failureEndsTransaction, 'what fails behind the rollback ends the outer one')
      const beside: Promise<unknown>[] = []
      await t.harness.own(async (tx) => {
        await t.both(tx, 1)
        const inner = nest(tx, async (within) => {
          beside.push(failCaught(t, within), t.publish(within, 'e2'), t.publish(within, 'e3'))
          await Promise.all([...beside, Promise.reject(new Error('business'))])
        })
        await assert.rejects(inner)
        await Promise.allSettled(beside)
        await t.both(tx, 4)
      })
      await t.expectOnly(1, 4)
    },
  },
}
