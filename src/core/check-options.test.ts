import { describe, expect, it } from 'vitest'
import { memoryStore } from '../stores/memory/index.ts'
import { defineEvent } from './define-event.ts'
import { createOutbox } from './outbox.ts'
import { exponential, fixed } from './policy/retry.ts'
import { NOOP_METRICS } from './runtime/metrics.ts'

const create = (given: unknown) => createOutbox(given as never)
const withOption = (option: object) => create({ store: memoryStore(), ...option })
const withDestination = (option: object) => withOption({ destinations: { a: { events: ['*'], ...option } } })
const refused = (text: string) =>
  expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION', message: expect.stringContaining(text) })

describe('createOutbox refuses names that it does not know', () => {
  it.each([
    [{ destinatons: {} }, 'did you mean "destinations"?'],
    [{ pollIntervalMS: 50 }, 'did you mean "pollIntervalMs"?'],
    [{ somethingElse: undefined }, 'createOutbox does not know "somethingElse"; there are: store, '],
    [{ destinations: { a: { events: ['*'], concurency: 1 } } }, 'did you mean "concurrency"?'],
    [{ destinations: { a: { events: ['*'], breaker: { treshold: 1 } } } }, 'did you mean "threshold"?'],
  ])('%j', (option, text) => {
    expect(() => withOption(option)).toThrow(refused(text))
  })
})

describe('createOutbox refuses values of the wrong kind', () => {
  it.each(['migrate', 'validate', 'validateJson', 'validateHeaders', 'pollerEnabled'])('%s', (name) => {
    for (const value of ['false', 'no', 0, {}]) {
      expect(() => withOption({ [name]: value })).toThrow(refused(`${name} must be true or false`))
    }
    expect(() => withOption({ [name]: false })).not.toThrow()
  })

  it.each([
    [{ retry: 5 }, 'retry must be a retry policy'],
    [{ retry: { computeDelayMs: () => 1 } }, 'retry.maxAttempts must be a number'],
    [{ onFailure: 5 }, 'onFailure must be a function'],
    [{ classify: 'x' }, 'classify must be a function'],
    [{ logger: 5 }, 'logger must be a logger'],
    [{ logger: {} }, 'lacks the method log'],
    [{ metrics: {} }, 'lacks the method hotEnqueued'],
    [{ runtime: {} }, 'lacks the method wallNow'],
    [{ transactions: {} }, 'transactions must be the transactions of a data-access library'],
    [{ serve: 'local' }, 'serve must be a list'],
    [{ serve: [{}] }, 'serve names "an object"'],
    [{ destinations: 'x' }, 'destinations must be an object'],
    [{ destinations: [] }, 'destinations must be an object'],
    [{ destinations: { a: null } }, 'destinations.a must be an object'],
    [{ destinations: { a: {} } }, 'destinations.a.events must be a list'],
    [{ drainMs: Object.create(null) }, 'drainMs must be a whole number'],
  ])('%j', (option, text) => {
    expect(() => withOption(option)).toThrow(refused(text))
  })

  it.each([
    [{ to: {} }, 'destinations.a.to must be a publisher'],
    [{ to: 'kafka' }, 'lacks the method send'],
    [{ to: { send: () => [], maxBatch: 'all' } }, 'destinations.a.to.maxBatch must be a number'],
    [{ topic: 5 }, 'destinations.a.topic must be text or a function'],
    [{ events: [] }, 'destinations.a.events is empty'],
    [{ events: 'x' }, 'destinations.a.events must be a list'],
    [{ events: [null] }, 'pattern must be a non-empty string'],
    [{ breaker: 5 }, 'destinations.a.breaker must be an object'],
    [{ breaker: { threshold: 0 } }, 'breaker.threshold must be a whole number from 1 to 1000'],
    [{ retry: 5 }, 'destinations.a.retry must be a retry policy'],
    [{ classify: 'x' }, 'destinations.a.classify must be a function'],
    [{ paused: 'no' }, 'destinations.a.paused must be true or false'],
  ])('of a destination: %j', (option, text) => {
    expect(() => withDestination(option)).toThrow(refused(text))
  })

  it.each([
    [undefined, 'createOutbox takes an object, such as { store: … }; it got undefined'],
    [null, 'it got null'],
    ['x', 'it got the string "x"'],
    [[], 'it got a list'],
    [{}, 'store is required: postgresStore(…), mysqlStore(…), sqliteStore(…)'],
    [{ store: {} }, 'store must be a store, such as postgresStore(…)'],
    [{ store: 'memory' }, 'store must be a store'],
    [{ store: { insert() {} } }, 'it has no capabilities'],
  ])('when there is no store: %j', (given, text) => {
    expect(() => create(given)).toThrow(refused(text))
  })

  it.each([
    [{ pollIntervalMs: '1000' }, 'from 10 to 3600000, not the string "1000"'],
    [{ migrate: 'true' }, 'not the string "true"'],
    [{ keyOrder: 'lock' }, 'one of visible, locked, not lock'],
  ])('and shows what it got: %j', (option, text) => {
    expect(() => withOption(option)).toThrow(refused(text))
  })

  it('but takes metrics that lack the newest names', () => {
    const { suspects: _, ...older } = NOOP_METRICS
    expect(() => withOption({ metrics: older })).not.toThrow()
  })
})

describe('options that throw when they are read', () => {
  const explosive = (): never => {
    throw new TypeError('a getter that throws')
  }
  const trap = new Proxy({}, { get: explosive, ownKeys: explosive, has: explosive })

  it.each<[string, () => unknown]>([
    ['createOutbox', () => createOutbox(trap as never)],
    ['exponential', () => exponential(trap as never)],
    ['fixed', () => fixed(trap as never)],
    ['defineEvent', () => defineEvent('a', trap as never)],
  ])('are refused as such by %s', (name, act) => {
    expect(act).toThrow(
      expect.objectContaining({
        code: 'POSTHASTE_INVALID_OPTION',
        message: expect.stringContaining('throw when they are read'),
        cause: expect.objectContaining({ message: 'a getter that throws' }),
        detail: expect.objectContaining({ option: expect.stringContaining(name) }),
      }),
    )
  })
})
