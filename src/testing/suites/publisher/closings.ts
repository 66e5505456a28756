/** Messages for which a broker closes the connection, under the feet of everything else that is on its way. */
import assert from 'node:assert/strict'
import { createOutbox } from '../../../core/outbox.ts'
import { fixed } from '../../../core/policy/retry.ts'
import { NOOP_METRICS } from '../../../core/runtime/metrics.ts'
import type { Metrics } from '../../../core/spi/index.ts'
import { memoryStore } from '../../../stores/memory/index.ts'
import { firstArrivals, type PublisherFixture, type PublisherTopic } from '../publisher-fixture.ts'
import type { PublisherHarness } from '../publisher-harness.ts'

const NONE = 'no message shares its connection with others that it could take along'
const POISON = 'order.poison'
const KEYS = 5
const TOTAL = 100
const AT = 42
const MAX_ATTEMPTS = 3

type Poisoned = Awaited<ReturnType<NonNullable<PublisherHarness['openPoisoned']>>>

/** An outbox that sends the poison where, and as, it does harm. */
const outboxTo = (t: PublisherFixture, { publisher, poison }: Poisoned, metrics: Partial<Metrics>) =>
  createOutbox({
    store: memoryStore(),
    metrics: { ...NOOP_METRICS, ...metrics },
    maxPayloadBytes: 4_000_000,
    destinations: {
      broker: {
        to: publisher,
        events: ['*'],
        topic: ({ type }) => (type === POISON ? (poison.topic ?? t.harness.topic) : t.harness.topic),
        retry: fixed({ delayMs: 50, maxAttempts: MAX_ATTEMPTS }),
        breaker: { openMs: 100, maxOpenMs: 500 },
      },
    },
  })

export const closingsTopic: PublisherTopic = {
  title: 'closed connections',
  cases: {
    'one for which the broker closes the connection is charged, and those beside it arrive': async (t) => {
      const { publisher, poison } = await t.need('openPoisoned', NONE)()
      t.closing(publisher)
      const batch = Array.from({ length: 9 }, (_, n) =>
        t.delivery({ data: JSON.stringify({ n }), key: `k${n}`, ...(n === 5 ? poison : {}) }),
      )
      const verdicts = (await t.send(publisher, batch)).map((result) => t.verdict(result))
      assert.ok(['retry', 'dead'].includes(verdicts[5] ?? ''), `about the event: ${verdicts[5]}`)
      assert.deepEqual(
        verdicts.filter((_, n) => n !== 5),
        Array.from({ length: 8 }, () => 'done'),
      )
      await t.sends(publisher, [t.delivery({ data: '{"n":9}', key: 'k9' })])
      // Some may have come twice.
      const arrived = await firstArrivals(t, 9)
      assert.deepEqual([...arrived.keys()].sort(), [0, 1, 2, 3, 4, 6, 7, 8, 9])
    },

    'one that is alone in closing the connection is an outage, for nobody knows better': async (t) => {
      const { publisher, poison, mayBeNamed = false } = await t.need('openPoisoned', NONE)()
      t.closing(publisher)
      const delivery = t.delivery(poison)
      const sendIt = async () => t.verdict((await t.send(publisher, [delivery]))[0])
      const othersPass = () => t.sends(publisher, [t.delivery({ data: '1' })])
      const first = await sendIt()
      assert.ok(first === 'outage' || (mayBeNamed && first === 'retry'), `not an outage: ${first}`)
      await othersPass()
      let next = await sendIt()
      // Named the first time and not the second, it is suspected only since then.
      if (first === 'retry' && next === 'outage') {
        await othersPass()
        next = await sendIt()
      }
      assert.equal(next, 'retry', 'others passed since')
    },

    'one for which the broker closes the connection dies of it alone, and order is kept': async (t) => {
      const poisoned = await t.need('openPoisoned', NONE)()
      let breaker = 'closed'
      const outbox = outboxTo(t, poisoned, {
        breakerState: (_destination, state) => {
          breaker = state
        },
      })
      const payload: unknown = JSON.parse(poisoned.poison.data ?? '"poison"')
      await outbox.transaction(async (tx) => {
        for (let n = 0; n < TOTAL; n += 1) {
          const event = n === AT ? { type: POISON, payload } : { type: 'order.placed', payload: { n } }
          await outbox.publish(tx, { ...event, key: `k${n % KEYS}` })
        }
      })
      await outbox.start()
      try {
        const numbers = Array.from({ length: TOTAL }, (_, n) => n).filter((n) => n !== AT)
        const first = await firstArrivals(t, numbers.length)
        for (const n of numbers.filter((each) => each >= KEYS && each - KEYS !== AT))
          assert.ok((first.get(n - KEYS) ?? 0) < (first.get(n) ?? 0), `${n} came after ${n - KEYS}`)
        await outbox.stop()
        const { deliveries } = await outbox.inspect.list({ limit: TOTAL })
        const dead = deliveries.filter(({ status }) => status === 'dead')
        assert.deepEqual(
          dead.map(({ type, attempts }) => ({ type, attempts })),
          [{ type: POISON, attempts: MAX_ATTEMPTS }],
        )
        const spent = deliveries.filter(
          ({ status, attempts, type }) => type !== POISON && (status !== 'done' || attempts > 1),
        )
        assert.deepEqual(spent, [], 'the others spend nothing')
        assert.equal(breaker, 'closed')
      } finally {
        await outbox.close()
      }
    },
  },
}
