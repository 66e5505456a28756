import assert from 'node:assert/strict'
import { createOutbox } from '../../../core/outbox.ts'
import { fixed } from '../../../core/policy/retry.ts'
import type { Publisher } from '../../../core/spi/index.ts'
import { memoryStore } from '../../../stores/memory/index.ts'
import { firstArrivals, type PublisherFixture, type PublisherTopic, text } from '../publisher-fixture.ts'

const NO_BROKER = 'there is no broker that could be ended'

/** An outbox that sends to the publisher, with a breaker that looks again soon and a limit that outages must not reach. */
const outboxTo = (t: PublisherFixture, publisher: Publisher) =>
  createOutbox({
    store: memoryStore(),
    destinations: {
      broker: {
        to: publisher,
        events: ['*'],
        topic: t.harness.topic,
        retry: fixed({ delayMs: 50, maxAttempts: 3 }),
        breaker: { openMs: 200, maxOpenMs: 500 },
        timeoutMs: 3_000,
      },
    },
  })

const KEYS = 5
const BEFORE = 100
const DURING = 100

export const faultsTopic: PublisherTopic = {
  title: 'faults',
  cases: {
    'credentials that are refused say nothing about the event': async (t) => {
      const publisher = t.closing(t.need('openRefused', 'there are no credentials')())
      const [result] = await t.send(publisher, [t.delivery()], 10_000)
      assert.equal(t.verdict(result), 'outage')
    },

    '[61] a broker that takes everything and answers nothing is waited for no longer than was said': async (
      t,
    ) => {
      const openHanging = t.need('openHanging', 'there is no connection that could hang')
      const { publisher, hang, goOn } = await openHanging()
      t.closing(publisher)
      await t.sends(publisher, [t.delivery({ data: '0' })])
      hang()
      const startedAt = performance.now()
      const results = await t.send(publisher, [t.delivery({ data: '1' })], 500)
      assert.equal(results[0]?.ok, false)
      assert.ok(performance.now() - startedAt < 10_000, 'it ended soon after the deadline')
      goOn()
      // What was not answered may have arrived all the same.
      await t.sends(publisher, [t.delivery({ data: '2' })])
      const numbers = (await t.harness.received(2)).map(text).filter((each) => each !== '1')
      assert.deepEqual(numbers, ['0', '2'])
    },

    'a broker that is not there is an outage, and is found when it is': async (t) => {
      const kill = t.need('kill', NO_BROKER)
      const start = t.need('start', NO_BROKER)
      await kill()
      const publisher = t.open()
      const [result] = await t.send(publisher, [t.delivery()], 3_000)
      assert.equal(t.verdict(result), 'outage')
      await start()
      let accepted = false
      while (!accepted) accepted = (await t.send(publisher, [t.delivery({ data: '7' })]))[0]?.ok === true
      assert.ok((await t.harness.received(1)).map(text).includes('7'))
    },

    'a broker that is ended under load: nothing is lost, no attempt is spent, order is kept': async (t) => {
      const kill = t.need('kill', NO_BROKER)
      const start = t.need('start', NO_BROKER)
      const outbox = outboxTo(t, t.open())
      await outbox.start()
      try {
        const publish = async (n: number): Promise<void> => {
          await outbox.transaction((tx) =>
            outbox.publish(tx, { type: 'order.placed', payload: { n }, key: `k${n % KEYS}` }),
          )
        }
        for (let n = 0; n < BEFORE; n += 1) await publish(n)
        await t.harness.received(1)
        await kill()
        for (let n = BEFORE; n < BEFORE + DURING; n += 1) await publish(n)
        await start()
        const total = BEFORE + DURING
        const first = await firstArrivals(t, total)
        if (t.harness.keepsKey) {
          for (let n = KEYS; n < total; n += 1)
            assert.ok((first.get(n - KEYS) ?? 0) < (first.get(n) ?? 0), `${n} came after ${n - KEYS}`)
        }
        await outbox.stop()
        const { deliveries } = await outbox.inspect.list({ limit: total })
        // The one that succeeded counts.
        const spent = deliveries.filter(({ status, attempts }) => status !== 'done' || attempts > 1)
        assert.deepEqual(spent, [], 'no attempt is spent')
      } finally {
        await outbox.close()
      }
    },
  },
}
