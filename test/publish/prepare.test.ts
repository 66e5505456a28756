import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Draft, defineEvent, ofJson } from '../../src/core/define-event.ts'
import { InvalidEventError } from '../../src/core/errors.ts'
import { UNROUTED } from '../../src/core/model/delivery.ts'
import { laneOf } from '../../src/core/model/lane.ts'
import { createWorld, type World } from './fixture.ts'

const publish = async (draft: unknown, world: World = {}) => {
  const made = createWorld(world)
  await made.outbox.transaction((tx) => made.outbox.publish(tx, draft as Draft))
  const row = made.database.rows[0]
  if (row === undefined) throw new Error('nothing was stored')
  return { ...made, event: row.event, delivery: row.deliveries[0] }
}

/** The refusal, and proof that it came before any SQL and left the transaction good. */
const refusal = async (draft: unknown, world: World = {}): Promise<InvalidEventError> => {
  const { outbox, database } = createWorld(world)
  const error = await outbox.transaction(async (tx) => {
    const refused = await outbox.publish(tx, draft as Draft).catch((thrown: unknown) => thrown)
    await outbox.publish(tx, { type: 'fine', payload: {} })
    return refused
  })
  expect(database.rows.map((row) => row.event.type)).toEqual(['fine'])
  expect(database.inserts).toHaveLength(1)
  expect(error).toBeInstanceOf(InvalidEventError)
  return error as InvalidEventError
}

describe('an event', () => {
  it('gets its defaults', async () => {
    const { event, delivery, runtime } = await publish({ type: 'order.placed', payload: { a: 1 } })
    expect(event).toMatchObject({
      type: 'order.placed',
      version: 1,
      key: null,
      aggregateType: null,
      aggregateId: null,
      tenantId: null,
      headers: {},
      contentType: 'application/json',
      data: '{"a":1}',
      size: 7,
      occurredAtMs: runtime.wall,
      createdAtMs: runtime.wall,
      replacesId: null,
      routesVersion: 7,
      idempotencyKey: null,
    })
    expect(delivery).toMatchObject({
      eventId: event.id,
      lane: laneOf(event.id),
      key: null,
      size: 7,
      due: { afterMs: 0 },
    })
  })

  it('keeps what the caller says', async () => {
    const id = '018F0000-0000-7000-8000-0000000000AB'
    const { event, delivery } = await publish({
      type: { name: 'USER_CREATED' },
      payload: null,
      id,
      key: 'k',
      aggregateType: { name: 'USER' },
      aggregateId: '42',
      tenantId: 't',
      headers: { trace: 'x' },
      occurredAt: new Date(5),
      version: 3,
    })
    expect(event).toMatchObject({
      id: id.toLowerCase(),
      type: 'USER_CREATED',
      key: 'k',
      aggregateType: 'USER',
      aggregateId: '42',
      tenantId: 't',
      headers: { trace: 'x' },
      occurredAtMs: 5,
      version: 3,
      data: 'null',
    })
    expect(delivery).toMatchObject({ lane: laneOf('k'), key: 'k' })
  })

  it('takes key and aggregate from its definition, and the draft wins', async () => {
    const placed = defineEvent('order.placed', {
      version: 2,
      schema: z.object({ id: z.string(), total: z.coerce.number() }),
      aggregate: 'order',
      aggregateId: (order) => order.id,
      key: (order) => order.id,
    })
    const first = await publish(placed({ id: 'o1', total: '12' }))
    expect(first.event).toMatchObject({ key: 'o1', aggregateType: 'order', aggregateId: 'o1', version: 2 })
    expect(first.event.data).toBe('{"id":"o1","total":12}')
    const second = await publish(
      placed({ id: 'o1', total: 1 }, { key: null, aggregateId: 'x', aggregateType: 'y' }),
    )
    expect(second.event).toMatchObject({ key: null, aggregateType: 'y', aggregateId: 'x' })
  })

  it('is copied: later changes of payload, headers and bytes do not reach it', async () => {
    const { outbox, database } = createWorld()
    const payload = { list: [1] }
    const headers: Record<string, string> = { a: '1' }
    const bytes = new Uint8Array([1, 2, 3])
    await outbox.transaction(async (tx) => {
      const publishing = outbox.publish(tx, { type: 'a', payload, headers })
      const binary = outbox.publish(tx, { type: 'b', payload: bytes, contentType: 'image/png' })
      payload.list.push(2)
      headers.a = '2'
      bytes[0] = 9
      await Promise.all([publishing, binary])
    })
    const [json, binary] = database.rows
    expect(json?.event).toMatchObject({ data: '{"list":[1]}', headers: { a: '1' } })
    expect(binary?.event).toMatchObject({
      data: new Uint8Array([1, 2, 3]),
      size: 3,
      contentType: 'image/png',
    })
    expect(Object.isFrozen(json?.event)).toBe(true)
    expect(Object.isFrozen(json?.event.headers)).toBe(true)
  })

  it('is checked by asynchronous schemas too', async () => {
    const checked = defineEvent('a', { schema: z.object({ n: z.number() }).refine(async ({ n }) => n > 0) })
    expect((await publish(checked({ n: 1 }))).event.data).toBe('{"n":1}')
    expect((await refusal(checked({ n: 0 }))).path).toBe('payload')
  })

  it('is checked by schemas that are functions', async () => {
    const schema = Object.assign(() => undefined, v.object({ n: v.number() }))
    expect((await refusal(defineEvent('a', { schema })({ n: 'x' as never }))).path).toBe('payload.n')
  })
})

describe('the hot way', () => {
  const token = async (
    draft: object,
    change: (world: ReturnType<typeof createWorld>) => void = () => undefined,
  ) => {
    const world = createWorld()
    change(world)
    await world.outbox.transaction((tx) => world.outbox.publish(tx, { type: 'a', payload: {}, ...draft }))
    const stored = world.database.rows[0]?.deliveries[0]
    return {
      claimed: stored?.token !== null,
      offered: world.intake.offered.length,
      expected: world.intake.expected,
    }
  }

  it('is for events that are born claimed, keyed ones and those with an idempotency key', async () => {
    expect(await token({})).toEqual({ claimed: true, offered: 1, expected: 0 })
    expect(await token({ key: 'k' })).toEqual({ claimed: false, offered: 1, expected: 0 })
    expect(await token({ idempotencyKey: 'i' })).toEqual({ claimed: false, offered: 1, expected: 0 })
    // An id of the caller's may be stored already; the row is looked up before anything is sent.
    const id = '018f0000-0000-7000-8000-0000000000ab'
    expect(await token({ id })).toEqual({ claimed: false, offered: 1, expected: 0 })
  })

  it('is not for delayed ones, nor while the dispatcher does not want them', async () => {
    expect(await token({ delayMs: 5 })).toEqual({ claimed: false, offered: 0, expected: 1 })
    expect(await token({ dueAt: new Date(2_000_000_000_000) })).toEqual({
      claimed: false,
      offered: 0,
      expected: 1,
    })
    expect(await token({ dueAt: new Date(1) })).toEqual({ claimed: true, offered: 1, expected: 0 })
    const full = await token({}, ({ intake }) => {
      intake.admitted = false
    })
    expect(full).toEqual({ claimed: false, offered: 0, expected: 1 })
  })

  it('gives every call one token and every delivery its own id', async () => {
    const { outbox, database, intake } = createWorld()
    intake.destinations = ['local', 'kafka']
    await outbox.transaction((tx) =>
      outbox.publishMany(tx, [
        { type: 'a', payload: 1 },
        { type: 'b', payload: 2 },
      ]),
    )
    const deliveries = database.rows.flatMap((row) => row.deliveries)
    expect(new Set(deliveries.map((delivery) => delivery.token)).size).toBe(1)
    expect(new Set(deliveries.map((delivery) => delivery.id)).size).toBe(4)
    expect(intake.offered.map((hot) => hot.destination)).toEqual(['local', 'kafka', 'local', 'kafka'])
  })

  it('is bounded: what a transaction may keep in memory until its commit ends at the queue’s capacity', async () => {
    const { outbox, intake, metrics } = createWorld({ options: { hotQueueCapacity: 2 } })
    const three = [1, 2, 3].map((payload) => ({ type: 'a', payload }))
    await outbox.transaction((tx) => outbox.publishMany(tx, three))
    expect(intake.offered).toHaveLength(2)
    expect(intake.expected).toBe(1)
    expect(metrics.count('hotDropped')).toBe(1)
  })

  it('is unknown to a process that does not know the routes: one unrouted delivery', async () => {
    const world = createWorld()
    world.intake.destinations = null
    await world.outbox.transaction((tx) => world.outbox.publish(tx, { type: 'a', payload: 1, key: 'k' }))
    const row = world.database.rows[0]
    expect(row?.event.routesVersion).toBe(0)
    expect(row?.deliveries).toMatchObject([{ destination: UNROUTED, lane: laneOf('k'), token: null }])
  })

  it('leaves an event that nobody hears without deliveries', async () => {
    const world = createWorld()
    world.intake.destinations = []
    await world.outbox.transaction((tx) => world.outbox.publish(tx, { type: 'a', payload: 1 }))
    expect(world.database.rows[0]?.deliveries).toEqual([])
  })
})

describe('[76] what cannot be stored is refused before any SQL, with its place', () => {
  const cycle: Record<string, unknown> = {}
  cycle.self = cycle
  const placed = defineEvent('order.placed', {
    schema: z.object({ items: z.array(z.object({ n: z.number() })) }),
  })

  it.each([
    ['BigInt', { type: 'a', payload: { items: [1, 2n] } }, 'payload.items[1]'],
    ['NaN', { type: 'a', payload: { x: Number.NaN } }, 'payload.x'],
    ['a cycle', { type: 'a', payload: cycle }, 'payload.self'],
    ['no payload', { type: 'a' }, 'payload'],
    ['NUL', { type: 'a', payload: 'a\0b' }, 'payload'],
    ['a lone surrogate', { type: 'a', payload: { s: '\ud800' } }, 'payload.s'],
    [
      'a throwing getter',
      {
        type: 'a',
        payload: {
          get x() {
            throw new Error('no')
          },
        },
      },
      'payload.x',
    ],
    ['too large', { type: 'a', payload: 'x'.repeat(1_048_577) }, 'payload'],
    ['bad JSON text', ofJson('a', '{'), 'payload'],
    ['JSON text and payload', { type: 'a', payload: 1, json: '1' }, 'json'],
    ['a schema’s issue', placed({ items: [{ n: 1 }, { n: 'x' as never }] }), 'payload.items[1].n'],
    ['no type', { payload: 1 }, 'type'],
    ['a pattern as type', { type: 'order.*', payload: 1 }, 'type'],
    ['a long type', { type: 'x'.repeat(129), payload: 1 }, 'type'],
    ['an empty key', { type: 'a', payload: 1, key: '' }, 'key'],
    ['a key that is a number', { type: 'a', payload: 1, key: 5 }, 'key'],
    ['an id that is no UUID', { type: 'a', payload: 1, id: 'x' }, 'id'],
    ['a bad header', { type: 'a', payload: 1, headers: { a: 1 } }, 'headers["a"]'],
    ['a negative delay', { type: 'a', payload: 1, delayMs: -1 }, 'delayMs'],
    ['NaN as delay', { type: 'a', payload: 1, delayMs: Number.NaN }, 'delayMs'],
    ['delay and time', { type: 'a', payload: 1, delayMs: 1, dueAt: new Date(1) }, 'dueAt'],
    ['an invalid Date', { type: 'a', payload: 1, occurredAt: new Date(Number.NaN) }, 'occurredAt'],
    ['a time before all', { type: 'a', payload: 1, occurredAt: new Date(-3e14) }, 'occurredAt'],
    ['a time after all', { type: 'a', payload: 1, dueAt: new Date(3e14) }, 'dueAt'],
    ['version 0', { type: 'a', payload: 1, version: 0 }, 'version'],
    ['bytes without content type', { type: 'a', payload: new Uint8Array(1) }, 'contentType'],
    [
      'bytes as JSON',
      { type: 'a', payload: new Uint8Array(1), contentType: 'application/json' },
      'contentType',
    ],
    ['data as an image', { type: 'a', payload: {}, contentType: 'image/png' }, 'contentType'],
    ['null', null, 'event'],
    ['text', 'order.placed', 'event'],
  ])('%s', async (_name, draft, path) => {
    expect((await refusal(draft)).path).toBe(path)
  })

  it('names the event of a list', async () => {
    const { outbox, database } = createWorld()
    const list = [
      { type: 'a', payload: 1 },
      { type: 'a', payload: 1 },
      { type: 'a', payload: { items: [0, 0, 0, 1n] } },
    ]
    await outbox.transaction(async (tx) => {
      const refused = outbox.publishMany(tx, list)
      await expect(refused).rejects.toMatchObject({
        path: 'events[2].payload.items[3]',
        message: expect.stringContaining('events[2]'),
      })
    })
    expect(database.inserts).toEqual([])
  })

  it('bounds the number of events, and takes none as none', async () => {
    const { outbox, database } = createWorld()
    const many = Array.from({ length: 10_001 }, () => ({ type: 'a', payload: 1 }))
    await outbox.transaction(async (tx) => {
      await expect(outbox.publishMany(tx, many)).rejects.toMatchObject({ path: 'events' })
      await expect(outbox.publishMany(tx, 'x' as never)).rejects.toMatchObject({ path: 'events' })
      expect(await outbox.publishMany(tx, [])).toEqual([])
    })
    expect(database.inserts).toEqual([])
  })

  it('refuses an id used twice', async () => {
    const id = '018f0000-0000-7000-8000-0000000000ab'
    const { outbox } = createWorld()
    const twice = [
      { type: 'a', payload: 1, id },
      { type: 'b', payload: 1, id },
    ]
    await expect(outbox.transaction((tx) => outbox.publishMany(tx, twice))).rejects.toMatchObject({
      path: 'events[1].id',
    })
  })

  it('[74] contains what the application’s functions throw', async () => {
    const explode = () => {
      throw new Error('boom')
    }
    const keyed = defineEvent('a', { key: explode })
    expect((await refusal(keyed({}))).path).toBe('key')
    const schema = { '~standard': { version: 1, vendor: 'x', validate: explode } } as const
    const error = await refusal(defineEvent('a', { schema })({}))
    expect(error.path).toBe('payload')
    expect(error.cause).toMatchObject({ message: 'boom' })
  })

  it('refuses a definition’s key that is undefined, and takes null for none', async () => {
    const misspelt = defineEvent<'a', { order?: string }>('a', { key: ({ order }) => order as string })
    const error = await refusal(misspelt({}))
    expect(error).toMatchObject({
      code: 'POSTHASTE_INVALID_EVENT',
      path: 'key',
      detail: { reason: 'undefined' },
    })
    expect((await publish(misspelt({}, { key: 'k' }))).event).toMatchObject({ key: 'k' })
    expect((await publish(defineEvent('a', { key: () => null })({}))).event).toMatchObject({ key: null })
  })

  it('leaves checks out that the user turned off', async () => {
    const strict = defineEvent('a', { schema: z.object({ n: z.number() }) })
    expect((await publish(strict({ n: 'x' as never }), { options: { validate: false } })).event.data).toBe(
      '{"n":"x"}',
    )
    expect((await publish(ofJson('a', 'not json'), { options: { validateJson: false } })).event.data).toBe(
      'not json',
    )
    const loose = { type: 'a', payload: 1, headers: { 'a b': 'c' } }
    expect((await publish(loose, { options: { validateHeaders: false } })).event.headers).toEqual({
      'a b': 'c',
    })
  })

  it('checks JSON text by the schema of its definition', async () => {
    const strict = defineEvent('a', { schema: z.object({ n: z.number() }), key: (p) => String(p.n) })
    expect((await refusal(ofJson(strict, '{"n":"x"}'))).path).toBe('payload.n')
    expect((await publish(ofJson(strict, '{"n": 1}'))).event).toMatchObject({ key: '1', data: '{"n":1}' })
  })
})
