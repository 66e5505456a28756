import { describe, expect, it } from 'vitest'
import { createTestOutbox } from '../testing/index.ts'
import { openBreakersOf } from './inspection.ts'
import type { WorkerView } from './spi/index.ts'

const refused = (text: string) =>
  expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION', message: expect.stringContaining(text) })

const waiting = async (count: number) => {
  const made = createTestOutbox({ destinations: { d: { events: ['*'] } } })
  await made.outbox.transaction((tx) =>
    made.outbox.publishMany(
      tx,
      Array.from({ length: count }, () => ({ type: 't', payload: {} })),
    ),
  )
  return made
}

describe('an open breaker', () => {
  it('is told of by live workers alone, the oldest first', () => {
    const worker = (name: string, sinceMs: number, over: Partial<WorkerView> = {}): WorkerView => ({
      workerId: name,
      name,
      startedAtMs: 0,
      expiresInMs: 5_000,
      fenced: false,
      destinations: ['d', 'other'],
      lanes: 1,
      openBreakers: [{ destination: 'd', sinceMs }],
      ...over,
    })
    const workers = [
      worker('late', 30),
      worker('early', 20),
      worker('fenced', 1, { fenced: true }),
      worker('gone', 2, { expiresInMs: 0 }),
    ]
    expect(openBreakersOf(workers, 'd')).toEqual([
      { worker: 'early', sinceMs: 20 },
      { worker: 'late', sinceMs: 30 },
    ])
    expect(openBreakersOf(workers, 'other')).toEqual([])
  })
})

describe('a question about deliveries', () => {
  it('may be asked without saying anything', async () => {
    await using made = await waiting(101)
    const { inspect } = made.outbox
    const { deliveries, next } = await inspect.list()
    expect(deliveries).toHaveLength(100)
    expect((await inspect.list({ after: next as string })).deliveries).toHaveLength(1)
    expect(await inspect.blockedKeys()).toEqual([])
    expect(await inspect.audit()).toEqual([])
    expect((await inspect.list({ destination: undefined as never, limit: 1 })).deliveries).toHaveLength(1)
  })

  it.each([
    [null, 'list must be an object'],
    [{ destinaton: 'd' }, 'did you mean "destination"?'],
    [{ status: 'dead' }, 'status must be a list of pending, done, '],
    [{ status: ['dead', 'failed'] }, 'status[1] must be one of pending, done, '],
    [{ order: 'random' }, 'order must be one of newest, oldest, not random'],
    [{ limit: 0 }, 'limit must be a whole number from 1 to 10000'],
    [{ limit: 10_001 }, 'limit must be a whole number from 1 to 10000'],
    [{ limit: null }, 'limit must be a whole number'],
    [{ key: 5 }, 'key must be text, not 5'],
    [{ olderThanMs: -1 }, 'olderThanMs must be a whole number'],
    [{ newerThanMs: '5' }, 'newerThanMs must be a whole number'],
    [{ after: 5 }, 'after must be text, not 5'],
    [{ after: 'nonsense' }, 'after must be the `next` of an earlier page'],
    [{ after: '7:nonsense' }, 'after must be the `next` of an earlier page'],
  ])('is refused when it is %j', async (query, text) => {
    await using made = createTestOutbox()
    await expect(made.outbox.inspect.list(query as never)).rejects.toThrow(refused(text))
  })

  it.each([
    ['blockedKeys', null, 'blockedKeys must be an object'],
    ['blockedKeys', { destinations: 'd' }, 'did you mean "destination"?'],
    ['blockedKeys', { destination: 5 }, 'destination must be text'],
    ['blockedKeys', { limit: 0 }, 'limit must be a whole number'],
    ['audit', 5, 'audit must be an object'],
    ['audit', { limits: 5 }, 'did you mean "limit"?'],
    ['audit', { limit: 10_001 }, 'limit must be a whole number'],
  ] as const)('%s is refused when it is %j', async (method, query, text) => {
    await using made = createTestOutbox()
    await expect(made.outbox.inspect[method](query as never)).rejects.toThrow(refused(text))
  })
})

describe('an id', () => {
  it('that nothing can have is known to nobody', async () => {
    await using made = await waiting(1)
    const { inspect } = made.outbox
    for (const id of ['nonsense', '', 5, null, undefined, {}] as string[]) {
      expect(await inspect.event(id)).toBeNull()
      expect(await inspect.eventOfDelivery(id)).toBeNull()
    }
  })

  it('is taken in either case', async () => {
    await using made = await waiting(1)
    const { inspect } = made.outbox
    const [only] = (await inspect.list()).deliveries
    expect((await inspect.event(only?.eventId.toUpperCase() ?? ''))?.deliveries).toHaveLength(1)
    expect(await inspect.eventOfDelivery(only?.id.toUpperCase() ?? '')).not.toBeNull()
  })
})
