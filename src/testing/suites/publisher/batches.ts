import assert from 'node:assert/strict'
import { type PublisherTopic, text } from '../publisher-fixture.ts'

export const batchesTopic: PublisherTopic = {
  title: 'batches',
  cases: {
    'many at once all arrive, those of a key in order': async (t) => {
      const publisher = t.open()
      // Only where it says so, several of a key may share a batch.
      const keys = publisher.orderedPrefix === true ? 7 : 500
      const deliveries = Array.from({ length: 500 }, (_, n) =>
        t.delivery({ data: JSON.stringify({ n }), key: `k${n % keys}` }),
      )
      await t.sends(publisher, deliveries)
      const received = await t.harness.received(500)
      const numbers = received.map((message) => (JSON.parse(text(message)) as { n: number }).n)
      assert.deepEqual(
        [...numbers].sort((a, b) => a - b),
        deliveries.map((_, n) => n),
      )
      for (let key = 0; key < keys; key += 1) {
        const ofKey = numbers.filter((n) => n % keys === key)
        assert.deepEqual(
          ofKey,
          [...ofKey].sort((a, b) => a - b),
          `order of k${key}`,
        )
      }
    },

    'sends that overlap do not disturb each other': async (t) => {
      const publisher = t.open()
      const most = Math.min(publisher.maxBatch ?? 1, 20)
      const batches = Array.from({ length: 8 }, (_, b) =>
        Array.from({ length: most }, (_unused, n) =>
          t.delivery({ data: JSON.stringify({ n: b * most + n }) }),
        ),
      )
      await Promise.all(batches.map((batch) => t.sends(publisher, batch)))
      const received = await t.harness.received(8 * most)
      const numbers = received.map((message) => (JSON.parse(text(message)) as { n: number }).n)
      assert.deepEqual(
        numbers.sort((a, b) => a - b),
        Array.from({ length: 8 * most }, (_, n) => n),
      )
    },

    '[60] one that is too large dies alone': async (t) => {
      const size = t.need('tooLarge', 'the place takes all that an event can have')
      const data = JSON.stringify('x'.repeat(size))
      const deliveries = [t.delivery({ data: '1' }), t.delivery({ data }), t.delivery({ data: '3' })]
      const results = await t.send(t.open(), deliveries)
      assert.deepEqual(
        results.map((result) => t.verdict(result)),
        ['done', 'dead', 'done'],
      )
      assert.deepEqual((await t.harness.received(2)).map(text), ['1', '3'])
    },

    'one that no message can be made of fails alone': async (t) => {
      const deliveries = [
        t.delivery({ data: '1' }),
        // As PostgreSQL's infinity is read.
        t.delivery({ data: '2', occurredAtMs: Number.POSITIVE_INFINITY }),
        t.delivery({ data: '3' }),
      ]
      const results = await t.send(t.open(), deliveries)
      const verdicts = results.map((result) => t.verdict(result))
      assert.deepEqual([verdicts[0], verdicts[2]], ['done', 'done'])
      assert.ok(['retry', 'dead'].includes(verdicts[1] ?? ''), `about the event: ${verdicts[1]}`)
      assert.deepEqual((await t.harness.received(2)).map(text), ['1', '3'])
    },

    '[61] one for a place that does not exist fails alone': async (t) => {
      const topic = t.need('unknownTopic', 'a place is made when something is sent there')
      const deliveries = [
        t.delivery({ data: '1' }),
        t.delivery({ data: '2', topic }),
        t.delivery({ data: '3' }),
      ]
      const results = await t.send(t.open(), deliveries)
      const verdicts = results.map((result) => t.verdict(result))
      assert.deepEqual([verdicts[0], verdicts[2]], ['done', 'done'])
      assert.ok(['retry', 'dead'].includes(verdicts[1] ?? ''), `about the event: ${verdicts[1]}`)
      assert.deepEqual((await t.harness.received(2)).map(text), ['1', '3'])
    },
  },
}
