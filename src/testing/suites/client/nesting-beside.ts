import assert from 'node:assert/strict'
import { ERROR_CODES } from '../../../core/errors.ts'
import type { ClientFixture, ClientTopic } from '../client-fixture.ts'

type Moment = () => Promise<void>

const afterMicrotasks = (count: number): Moment => {
  return async () => {
    for (let n = 0; n < count; n++) await Promise.resolve()
  }
}

const afterTurns = (count: number): Moment => {
  return async () => {
    for (let n = 0; n < count; n++) await new Promise<void>((resolve) => setImmediate(resolve))
  }
}

/** How long after the call of a nested transaction: from before its savepoint is sent to after its end. */
const MOMENTS: readonly (Moment | null)[] = [
  // In the same turn.
  null,
  ...[1, 2, 3, 4, 6, 8, 12, 16, 24].map(afterMicrotasks),
  ...[1, 2, 3, 4, 6, 8].map(afterTurns),
]

const UNDONE = new Error('undo')

/** Some libraries take nothing on the outer handle while a nested one is open, and ours then say so. */
const isRefused = (error: unknown): boolean =>
  (error as { readonly code?: unknown } | null)?.code === ERROR_CODES.conflict

/** Publishes at each of the moments, on the outer handle; resolves to the ids and the numbers of the rows around them. */
const publishBeside = async (t: ClientFixture, isUndone: boolean) => {
  t.needs(t.harness.transactions.nested !== undefined, 'the library has no nested transactions')
  const ids: string[] = []
  const numbers: number[] = []
  for (const [n, moment] of MOMENTS.entries()) {
    await t.outbox.transaction(async (tx) => {
      await t.harness.write(tx, n)
      const nested = t.outbox.transaction(async (inner) => {
        await t.harness.write(inner, n + MOMENTS.length)
        if (isUndone) throw UNDONE
      })
      const ended = Promise.allSettled([nested])
      if (moment !== null) await moment()
      const beside = await Promise.allSettled([
        t.publish(tx, `plain${n}`),
        t.publish(tx, `once${n}`, { idempotencyKey: `k${n}` }),
      ])
      const [end] = await ended
      assert.equal(end?.status === 'rejected' ? end.reason : null, isUndone ? UNDONE : null)
      for (const one of beside) {
        if (one.status === 'fulfilled') ids.push(one.value)
        else if (moment === null || !isRefused(one.reason)) throw one.reason
      }
    })
    numbers.push(n, ...(isUndone ? [] : [n + MOMENTS.length]))
  }
  await t.settled()
  assert.deepEqual(
    await t.harness.written(),
    numbers.sort((a, b) => a - b),
  )
  return ids
}

const timesHeard = (t: ClientFixture, id: string): number => t.heard.filter((one) => one.id === id).length

/** Which of the two a publish belongs to is decided by when it is sent; but never half of it to each. */
export const nestingBesideTopic: ClientTopic = {
  title: 'a publish beside a nested transaction that begins',
  cases: {
    'is stored as a whole when that ends well': async (t) => {
      for (const id of await publishBeside(t, false)) {
        assert.equal((await t.outbox.inspect.event(id))?.deliveries.length, 1)
        assert.equal(timesHeard(t, id), 1)
      }
    },

    'is stored as a whole or not at all when that is undone': async (t) => {
      for (const id of await publishBeside(t, true)) {
        const found = await t.outbox.inspect.event(id)
        assert.equal(found?.deliveries.length, found === null ? undefined : 1)
        assert.equal(timesHeard(t, id), found === null ? 0 : 1)
      }
    },
  },
}
