/** How often an operation asks the server. A round trip is what everything else waits for, and easy to add by a small change. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Outcome } from '../../src/core/model/delivery.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

const sent: string[] = []
let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl(), { onStatement: (sql) => sent.push(sql) })
})

afterEach(() => world.close())

/** Round trips of `work`, without the BEGIN and COMMIT of the application's transaction. */
const counted = async (work: () => Promise<unknown>): Promise<number> => {
  sent.length = 0
  await work()
  return sent.filter((sql) => !/^(BEGIN|COMMIT)$/.test(sql)).length
}

const insert = (count: number, over = {}, request = {}): Promise<number> =>
  counted(() => {
    const all = Array.from({ length: count }, (_, i) => world.t.prepare({ key: `k${i}`, ...over }))
    return world.t.insert({
      events: all.map(({ event }) => event),
      deliveries: all.map(({ delivery }) => delivery),
      ...request,
    })
  })

describe('round trips', () => {
  it('an insert is one, however many events there are, with idempotency keys or without', async () => {
    expect(await insert(1)).toBe(1)
    expect(await insert(200)).toBe(1)
    expect(await insert(1, { idempotencyKey: 'once' })).toBe(1)
    expect(await insert(50, { idempotencyKey: 'again' })).toBe(1)
    expect(await insert(50, { idempotencyKey: 'again' })).toBe(1)
  })

  it('an insert that locks its keys is two', async () => {
    expect(await insert(20, {}, { lockKeys: true })).toBe(2)
  })

  it('each method of the queue is one', async () => {
    const { t } = world
    const { queue } = t.store
    await insert(100)
    const me = await t.worker()
    const ids = (await t.read()).fresh.map(({ id }) => id)
    const workerId = me.id
    const methods: Record<string, () => Promise<unknown>> = {
      read: () => t.read({ sweep: true, after: 50n }),
      readByIds: () => queue.readByIds('alpha', ids),
      claim: () => queue.claim(workerId, ids, 10),
      suspect: () => queue.suspect({ workerId, ids, token: t.newId(), spendFrom: 3 }),
      extend: () => queue.extend([{ id: ids[0]!, token: t.newId() }], 1_000),
      hold: () => queue.hold(workerId, 'alpha', ids),
      activate: () => queue.activate({ workerId, destination: 'alpha', lanes: null, limit: 10 }),
      readUnrouted: () => queue.readUnrouted(10),
      expand: () => queue.expand({ workerId, registryVersion: 0, expansions: [] }),
      register: () => t.worker(),
      renew: () => t.store.lanes.renew(workerId, 1_000_000),
      survey: () => t.store.lanes.survey(workerId, ['alpha']),
      fence: () => t.store.lanes.survey(workerId, ['alpha'], [{ workerId: t.newId(), stamp: '1' }]),
      take: () => t.store.lanes.take(workerId, 'alpha', 64),
      giveUp: () => t.store.lanes.giveUp(workerId, 'alpha', [{ lane: 1, epoch: 1 }]),
      retire: () => t.store.lanes.retire(workerId),
    }
    const counts: Record<string, number> = {}
    for (const [name, method] of Object.entries(methods)) counts[name] = await counted(method)
    expect(counts).toEqual(Object.fromEntries(Object.keys(methods).map((name) => [name, 1])))
  })

  it('a settle of a thousand deliveries is one, by lane and by token', async () => {
    const { t } = world
    const me = await t.worker()
    const all = Array.from({ length: 1_000 }, (_, i) => t.prepare(i % 2 === 0 ? { token: t.newId() } : {}))
    await t.insert({ events: all.map(({ event }) => event), deliveries: all.map(({ delivery }) => delivery) })
    const done = all.map((one) =>
      t.settlement(
        one,
        one.delivery.token === null ? me.right : { kind: 'token', token: one.delivery.token },
        { kind: 'done' },
      ),
    )
    expect(await counted(() => t.settle(done))).toBe(1)
    expect(await counted(() => t.settle(done)), 'a repetition looks again').toBe(2)
  })

  it('a settle with every other outcome is one', async () => {
    const { t } = world
    const me = await t.worker()
    const failure = t.failure(1)
    const outcomes: Outcome[] = [
      { kind: 'done' },
      { kind: 'retry', delayMs: 60_000, counted: true, failure },
      { kind: 'dead', failure },
      { kind: 'released' },
    ]
    const all = await t.publishMany(8, { key: 'k' })
    const settlements = all.map((one, i) => t.settlement(one, me.right, outcomes[i % 4]!))
    expect(await counted(() => t.settle(settlements))).toBe(1)
    const statuses = await Promise.all(all.map((one) => t.status(one)))
    expect(statuses).toEqual(['done', 'retry', 'dead', 'pending', 'done', 'retry', 'dead', 'pending'])
  })

  it('the texts are the same for other lanes and limits, so that prepared ones are found again', async () => {
    const texts = new Set<string>()
    for (const [lanes, limit] of [
      [null, 1],
      [[0], 100],
      [[63, 1], 1_000],
    ] as const) {
      sent.length = 0
      await world.t.read({ lanes, limit })
      texts.add(sent.join())
    }
    expect(texts.size).toBe(1)
  })
})
