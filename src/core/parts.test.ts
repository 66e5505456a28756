import { describe, expect, it } from 'vitest'
import { memoryStore } from '../stores/memory/index.ts'
import { InFlightTracker } from './in-flight-tracker.ts'
import { ListenerRegistry } from './listeners.ts'
import { createClient, Dispatcher, Poller } from './parts.ts'

const refused = (text: string) =>
  expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION', message: expect.stringContaining(text) })

const dispatcher = (given: object = {}) =>
  new Dispatcher({ store: memoryStore(), listeners: new ListenerRegistry(), ...given })

describe('the parts by themselves refuse', () => {
  it.each([
    [{ worker: 1 }, 'Dispatcher does not know "worker"; did you mean "workers"?'],
    [{ workers: 0 }, 'workers must be a whole number from 1 to 1000, not 0'],
    [{ hotQueueCapacity: 0 }, 'hotQueueCapacity must be a whole number'],
    [{ store: undefined }, 'store is required: postgresStore('],
    [{ store: {} }, 'store must be a store'],
    [{ listeners: undefined }, 'listeners must be a ListenerRegistry'],
    [{ inFlight: {} }, 'inFlight must be an InFlightTracker'],
    [{ retry: 5 }, 'retry must be a retry policy'],
    [{ logger: {} }, 'logger must be a logger'],
    [{ metrics: {} }, 'metrics must be an implementation of Metrics'],
    [{ runtime: {} }, 'runtime must be an implementation of Runtime'],
  ])('a dispatcher with %j', (given, text) => {
    expect(() => dispatcher(given)).toThrow(refused(text))
  })

  it.each([
    [{ batchsize: 5 }, 'Poller does not know "batchsize"; did you mean "batchSize"?'],
    [{ batchSize: 0 }, 'batchSize must be a whole number from 1 to 10000, not 0'],
    [{ intervalMs: 5 }, 'intervalMs must be a whole number from 10 to 3600000, not 5'],
    [{ skipRecentMs: -1 }, 'skipRecentMs must be a whole number from 0 to 60000, not -1'],
    [{ dispatcher: undefined }, 'dispatcher must be a Dispatcher'],
  ])('a poller with %j', (given, text) => {
    expect(() => new Poller({ dispatcher: dispatcher(), ...given } as never)).toThrow(refused(text))
  })

  it.each([
    [{ dispatcher: undefined }, 'dispatcher must be a Dispatcher'],
    [{ transaction: {} }, 'createClient does not know "transaction"; did you mean "transactions"?'],
    [{ transactions: {} }, 'transactions must be the transactions of a data-access library'],
  ])('a client with %j', (given, text) => {
    expect(() => createClient({ dispatcher: dispatcher(), ...given } as never)).toThrow(refused(text))
  })

  it.each([null, 5, undefined])('%j instead of options', (given) => {
    expect(() => new Dispatcher(given as never)).toThrow(refused('Dispatcher must be an object'))
    expect(() => new Poller(given as never)).toThrow(refused('Poller must be an object'))
    expect(() => createClient(given as never)).toThrow(refused('createClient must be an object'))
  })

  it.each([null, 0, -1, Number.NaN, '5', { ttlMs: 5 }])('a tracker with a time of %j', (ttlMs) => {
    expect(() => new InFlightTracker(ttlMs as number)).toThrow(refused('ttlMs must be a number above 0'))
  })

  it('a tracker without a clock', () => {
    expect(() => new InFlightTracker(5, {} as never)).toThrow(refused('runtime must be'))
  })
})

describe('the parts by themselves take', () => {
  it('their defaults', () => {
    const made = dispatcher({ workers: undefined, runtime: undefined })
    expect(() => new Poller({ dispatcher: made })).not.toThrow()
    expect(() => createClient({ dispatcher: made })).not.toThrow()
    expect(() => [new InFlightTracker(), new InFlightTracker(5), new InFlightTracker(Infinity)]).not.toThrow()
  })
})

describe('a dispatcher', () => {
  it('does not open tables of an earlier release', async () => {
    const store = memoryStore()
    const { schema } = store
    const old = {
      ...schema,
      status: async () => ({ ...(await schema.status()), current: 1, latest: 2 }),
    }
    Object.defineProperty(store, 'schema', { value: old })
    Object.defineProperty(store, 'capabilities', { value: { ...store.capabilities, embedded: false } })
    await expect(dispatcher({ store }).open()).rejects.toMatchObject({
      code: 'POSTHASTE_SCHEMA_BEHIND',
    })
  })
})
