/** The way of a chaos worker to a real broker refuses what the event wants refused, and keeps the order of a key. */
import { expect, it } from 'vitest'
import { readSend, SEND_HEADER, sendsOf } from '../../chaos/crew/sends.ts'
import {
  isOutageError,
  isPermanentError,
  isRetryAfter,
  OutageError,
  type Publisher,
} from '../../src/index.ts'
import type { PublisherHarness } from '../../src/testing/suites/index.ts'
import { PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'

type Deliveries = Parameters<Publisher['send']>[0]

const t = new PublisherFixture({ topic: 'chaos' } as PublisherHarness)
const context = { signal: new AbortController().signal } as Parameters<Publisher['send']>[1]

const delivery = (key: string | null, failures: number, fate: 'accepted' | 'refused' = 'accepted') =>
  t.delivery({ key, data: JSON.stringify({ failures, fate }) })

const recording = (answer: (at: number) => boolean = () => true) => {
  const sent: Deliveries[number][] = []
  const publisher: Publisher = {
    maxBatch: 10,
    orderedPrefix: true,
    send: async (deliveries) =>
      deliveries.map((each, at) => {
        sent.push(each)
        return answer(at) ? { ok: true } : { ok: false, error: new OutageError('away') }
      }),
  }
  return { sent, publisher: sendsOf(publisher, 'worker1-3') }
}

it('what is refused is sent as such, and what is behind it in its key is not', async () => {
  const { sent, publisher } = recording()
  const all = [
    delivery('a', 0),
    delivery('a', 1),
    delivery('a', 0),
    delivery('b', 0, 'refused'),
    delivery('b', 0),
    delivery(null, 1),
    delivery(null, 0),
  ]
  const results = await publisher.send(all, context)
  const errors = results.map((result) => (result.ok ? null : result.error))
  expect(errors.map((error) => error === null)).toEqual([true, false, false, false, false, false, true])
  const marks = sent.map(({ event }) => readSend(event.headers[SEND_HEADER] ?? '')?.answer)
  expect(marks).toEqual(['ok', 'retry', 'dead', 'retry', 'ok'])
  expect(sent.map(({ event }) => event.id)).toEqual([0, 1, 3, 5, 6].map((at) => all[at]?.event.id))
  expect(sent.map((each) => each.deduplicationId === each.event.id)).toEqual([
    true,
    false,
    false,
    false,
    true,
  ])
  expect(isPermanentError(errors[3])).toBe(true)
  for (const at of [2, 4]) expect(errors[at]).toMatchObject({ counted: false })
  for (const at of [1, 5]) expect(isRetryAfter(errors[at])).toBe(false)
})

it('what would be refused spends no attempt when the broker was not reached', async () => {
  const { publisher } = recording(() => false)
  const [refused, behind] = await publisher.send([delivery('a', 1), delivery('a', 0)], context)
  expect(refused?.ok === false && isOutageError(refused.error)).toBe(true)
  expect(behind).toMatchObject({ ok: false, error: { counted: false } })
})

it('every message says who sent it, each with a number of its own', async () => {
  const { sent, publisher } = recording()
  const same = delivery('a', 0)
  await publisher.send([same], context)
  await publisher.send([same], context)
  const marks = sent.map(({ event }) => event.headers[SEND_HEADER] ?? '')
  expect(new Set(marks).size).toBe(2)
  expect(marks.map(readSend)).toEqual([
    { boot: 'worker1-3', run: 1, attempt: 1, answer: 'ok' },
    { boot: 'worker1-3', run: 1, attempt: 1, answer: 'ok' },
  ])
})
