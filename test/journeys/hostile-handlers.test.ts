/** Handlers, publishers and hooks that misbehave hurt their own event and nothing else. */
import { describe, expect, it } from 'vitest'
import { type FailureReport, fixed } from '../../src/index.ts'
import { createTestOutbox, failingDestination, recordingDestination } from '../../src/testing/index.ts'

const event = (payload: unknown = {}) => ({ type: payload === 'bad' ? 'bad' : 'good', payload })
const retry = fixed({ delayMs: 1_000, maxAttempts: 3 })

describe('[74] whatever a listener does is contained', () => {
  const hostile: Record<string, () => unknown> = {
    'throws a string': () => {
      throw 'text'
    },
    'throws undefined': () => {
      throw undefined
    },
    'throws null': () => {
      throw null
    },
    'rejects with a proxy that throws': () =>
      Promise.reject(
        new Proxy(
          {},
          {
            get: () => {
              throw new Error('trap')
            },
          },
        ),
      ),
    'returns a thenable that rejects': () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the abuse
      then: (_: unknown, reject: (error: Error) => void) => reject(new Error('thenable')),
    }),
    'returns a thenable that throws': () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the abuse
      then: () => {
        throw new Error('then')
      },
    }),
    'has a getter for then that throws': () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the abuse
      get then() {
        throw new Error('getter')
      },
    }),
    'throws an error whose message throws': () => {
      const error = new Error()
      Object.defineProperty(error, 'message', {
        get: () => {
          throw new Error('message')
        },
      })
      throw error
    },
    'throws an enormous message': () => {
      throw new Error('x'.repeat(10_000_000))
    },
  }

  it.each(Object.entries(hostile))('%s', async (_, behave) => {
    await using t = createTestOutbox({ retry: fixed({ delayMs: 1, maxAttempts: 2 }) })
    const heard: unknown[] = []
    t.outbox.on('bad', behave)
    t.outbox.on('good', () => void heard.push('good'))
    await t.outbox.start()
    await t.outbox.transaction((tx) => t.outbox.publishMany(tx, [event('bad'), event()]))
    await t.drain({ untilIdle: true })
    expect(heard).toEqual(['good'])
    const [bad] = (await t.deliveries()).filter(({ type }) => type === 'bad')
    expect(bad).toMatchObject({ status: 'dead', attempts: 2 })
    expect((bad?.lastError ?? '').length).toBeLessThanOrEqual(4_000)
  })

  it('resolves twice and then throws', async () => {
    await using t = createTestOutbox()
    t.outbox.on('good', () => ({
      // biome-ignore lint/suspicious/noThenProperty: that is the abuse
      then: (resolve: () => void) => {
        resolve()
        resolve()
        throw new Error('late')
      },
    }))
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain()).toMatchObject({ done: 1 })
  })

  it.each([
    ['nothing', undefined],
    ['too few results', []],
    ['too many', [{ ok: true }, { ok: true }]],
    ['no results', [null]],
    ['a text', 'ok'],
  ])('a publisher that returns %s has failed', async (_, answer) => {
    await using t = createTestOutbox({
      destinations: { broker: { to: { send: async () => answer as never }, events: ['*'], retry } },
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain({ untilIdle: true })).toEqual({ done: 0, retried: 2, dead: 1, left: 0 })
  })

  it('a publisher, topic, classifier or onFailure that throws has failed for its own event alone', async () => {
    const reports: FailureReport[] = []
    const good = recordingDestination()
    await using t = createTestOutbox({
      retry,
      onFailure: (report) => {
        reports.push(report)
        throw new Error('onFailure')
      },
      destinations: {
        throwing: {
          to: {
            send: () => {
              throw new Error('sync')
            },
          },
          events: ['*'],
        },
        topic: {
          to: recordingDestination(),
          events: ['*'],
          topic: () => {
            throw new Error('topic')
          },
        },
        classifier: {
          to: failingDestination(),
          events: ['*'],
          classify: () => {
            throw new Error('classifier')
          },
        },
        good: { to: good, events: ['*'] },
      },
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event()))
    expect(await t.drain({ untilIdle: true })).toEqual({ done: 1, retried: 6, dead: 3, left: 0 })
    expect(reports).toHaveLength(9)
    expect(reports.at(-1)).toMatchObject({ verdict: 'dead', attempt: 3 })
  })
})
