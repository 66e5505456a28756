/**
 * A transaction of the application stays open, perhaps for hours because its client is gone: nobody waits for the rows
 * that it has not committed. In a small table the server likes to read everything, and would.
 */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { idsOf, OPERATOR, type Published, tokenRight } from '../../src/testing/suites/store-fixture.ts'
import { createWorld, SERVERS, type World } from './mysql-words.ts'

const ROWS = 40

let world: World
let open: Awaited<ReturnType<World['t']['begin']>>

/** Rows before those that are there already, and behind them. */
const insertUncommitted = async (): Promise<void> => {
  const { t } = world
  const event = t.event({ key: 'open' })
  await t.insertIn(open.tx, { events: [event], deliveries: [t.delivery(event)] })
}

describe.each(SERVERS)('%s: with an open transaction', (server) => {
  beforeEach(async () => {
    world = await createWorld(server, { queryTimeoutMs: 10_000 })
    open = await world.t.begin()
    await insertUncommitted()
  })

  afterEach(async () => {
    await open.rollback()
    await world.close()
  })

  const many = async (over: Parameters<World['t']['publish']>[0] = {}): Promise<readonly Published[]> => {
    const all: Published[] = []
    for (let i = 0; i < ROWS; i += 1) all.push(await world.t.publish(over))
    await insertUncommitted()
    return all
  }

  it('suspects are counted', async () => {
    const me = await world.t.worker()
    const ids = idsOf(await many())
    const { queue } = world.t.store
    const request = { workerId: me.id, ids, token: world.t.newId(), spendFrom: 3 }
    expect(await queue.suspect(request)).toHaveLength(ROWS)
  })

  it('rows of a key are held', async () => {
    const { t } = world
    const me = await t.worker()
    const head = await t.publish({ key: 'k' })
    await t.retry(head, me.right)
    const ids = idsOf(await many({ key: 'k' }))
    expect(await t.store.queue.hold(me.id, 'alpha', ids)).toHaveLength(ROWS)
    await t.done(head, me.right)
    expect((await t.read()).fresh.length).toBeGreaterThan(0)
  })

  it.each(['done', 'retry', 'dead', 'released'] as const)('deliveries are settled as %s', async (kind) => {
    const { t } = world
    const me = await t.worker()
    const all = await many({ key: 'k' })
    const failure = t.failure(1)
    const outcome = { kind, failure, delayMs: 1 } as Parameters<typeof t.settlement>[2]
    expect((await t.settle(all.map((each) => t.settlement(each, me.right, outcome)))).lost).toEqual([])
  })

  it('claims are extended and used', async () => {
    const { t } = world
    const token = t.newId()
    const all = await many({ token, hotLeaseMs: 60_000 })
    const claims = all.map(({ delivery }) => ({ id: delivery.id, token }))
    expect(await t.store.queue.extend(claims, 60_000)).toEqual([])
    const done = all.map((each) => t.settlement(each, tokenRight(token), { kind: 'done' }))
    expect((await t.settle(done)).lost).toEqual([])
  })

  it('delayed events take their place', async () => {
    const { t } = world
    const me = await t.worker()
    await many({ due: { afterMs: 1 } })
    await t.until(1, 'they are due', async () => (await t.read()).activatable)
    const request = { workerId: me.id, destination: 'alpha', lanes: null, limit: ROWS }
    expect(await t.store.queue.activate(request)).toBe(ROWS)
  })

  it('unrouted events are routed', async () => {
    const { t } = world
    await t.declare('alpha')
    const me = await t.worker()
    const all = await many({ destination: '*' })
    const { version } = await t.store.registry.load()
    const expansions = all.map(({ event, delivery }) => ({
      unroutedId: delivery.id,
      deliveries: [t.delivery(event)],
    }))
    const request = { workerId: me.id, registryVersion: version, expansions }
    expect(await t.store.queue.expand(request)).toBe(true)
  })

  it('an operator discards', async () => {
    const { t } = world
    const target = { deliveryIds: idsOf(await many()), limit: ROWS }
    expect(await t.store.operations.discard(target, OPERATOR)).toBe(ROWS)
  })
})
