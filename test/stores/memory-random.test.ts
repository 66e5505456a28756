/**
 * Random sequences of everything the SPI can do, by a worker that follows the rules: the invariants hold after
 * every step, and once nothing new happens everything can be delivered. That is how rows would be found that
 * wait for each other for ever.
 */
import { expect, it } from 'vitest'
import { UNROUTED } from '../../src/core/model/delivery.ts'
import { SILENT_LOGGER } from '../../src/core/runtime/logger.ts'
import { createSystemRuntime } from '../../src/core/runtime/system-runtime.ts'
import type { StoredDelivery } from '../../src/core/spi/store.ts'
import { createMemoryDatabase } from '../../src/stores/memory/database.ts'
import { checkInvariants } from '../../src/stores/memory/invariants.ts'
import { memoryStore } from '../../src/stores/memory/memory-store.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import type { StoreHarness } from '../../src/testing/suites/store-harness.ts'

const SEEDS = 150
const STEPS = 150

/** A small generator of its own, so that a seed in a failure report is enough to see it again. */
const randomFrom = (seed: number) => {
  let state = seed * 2_654_435_761 + 1
  return (below: number): number => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9) >>> 0
    return ((state ^ (state >>> 13)) >>> 0) % below
  }
}

const begin = async (seed: number) => {
  const clock = { now: 1_000_000 }
  const database = createMemoryDatabase({ clock: () => clock.now })
  const store = memoryStore({ database })
  await store.open({ runtime: createSystemRuntime(), logger: SILENT_LOGGER })
  const t = new StoreFixture({ store, dispose: async () => {} } as unknown as StoreHarness)
  await t.declare('alpha', 'beta')
  const me = await t.worker({ leaseMs: 1e12 })
  const act = { actor: 'ops', reason: null }
  const open: { commit(): Promise<void>; rollback(): Promise<void> }[] = []
  return { t, me, act, open, clock, database, random: randomFrom(seed) }
}

type World = Awaited<ReturnType<typeof begin>>

const publish = async ({ t, random, open }: World): Promise<void> => {
  const published = t.prepare({
    key: random(4) === 0 ? null : `k${random(3)}`,
    destination: [UNROUTED, 'alpha', 'alpha', 'beta'][random(4)]!,
    due: { afterMs: random(4) === 0 ? random(60) : 0 },
    idempotencyKey: random(10) === 0 ? 'once' : null,
  })
  const transaction = await t.begin()
  await t.publishIn(transaction.tx, published)
  if (random(3) === 0) open.push(transaction)
  else await transaction.commit()
}

const endOne = async ({ open, random }: World): Promise<void> => {
  const [one] = open.splice(random(Math.max(1, open.length)), 1)
  if (random(4) === 0) await one?.rollback()
  else await one?.commit()
}

/** What a worker does with what it reads: hold what is behind, settle the rest one way or another. */
const work = async (world: World, settleAs: () => number): Promise<void> => {
  const { t, me, random } = world
  for (const destination of ['alpha', 'beta']) {
    await t.store.queue.activate({ workerId: me.id, destination, lanes: null, limit: 1 + random(5) })
    const { due, fresh } = await t.read({ destination, limit: 1 + random(5) })
    const rows = [...due, ...fresh]
    const behind = rows.filter((row) => row.behind).map((row) => row.id)
    await t.store.queue.hold(me.id, destination, behind)
    for (const row of rows) if (!row.behind) await settle(world, row, settleAs())
  }
}

const settle = async ({ t, me, random }: World, row: StoredDelivery, how: number): Promise<void> => {
  const event = { ...t.event(), ...row.event! }
  const one = { event, delivery: { ...t.delivery(event, { destination: row.destination }), id: row.id } }
  const attempts = row.attempts + 1
  const promoteLimit = 1 + random(3)
  if (how <= 2) await t.done(one, me.right, { promoteLimit })
  else if (how <= 4) await t.retry(one, me.right, { delayMs: random(40), attempts })
  else if (how === 5) await t.release(one, me.right)
  else if (how === 6) await t.dead(one, me.right, { attempts, promoteLimit })
  else if (how === 7) await t.dead(one, me.right, { attempts, holdsKey: true })
  else await t.store.queue.suspect({ workerId: me.id, ids: [row.id], token: t.newId(), spendFrom: 3 })
}

const expand = async ({ t, me }: World): Promise<void> => {
  const rows = await t.store.queue.readUnrouted(2)
  const { version } = await t.store.registry.load()
  const expansions = rows.map(({ id, eventId, key, size }) => ({
    unroutedId: id,
    deliveries: ['alpha', 'beta'].map((destination) => ({
      id: t.newId(),
      eventId,
      destination,
      lane: 0,
      key,
      size,
    })),
  }))
  await t.store.queue.expand({ workerId: me.id, registryVersion: version, expansions })
}

const operate = async ({ t, act, random }: World): Promise<void> => {
  const target = { key: `k${random(3)}`, limit: 1 + random(3) }
  const operation = (['redrive', 'replay', 'discard'] as const)[random(3)]!
  await t.store.operations[operation](target, act)
}

const step = async (world: World): Promise<void> => {
  const { random, clock, t } = world
  const what = random(12)
  if (what < 4) await publish(world)
  else if (what < 5) await endOne(world)
  else if (what < 8) await work(world, () => random(9))
  else if (what < 9) await expand(world)
  else if (what < 10) clock.now += random(50)
  else if (what < 11) await operate(world)
  else {
    const ages = { doneOlderThanMs: random(30), deadOlderThanMs: random(30), dedupOlderThanMs: random(30) }
    await t.store.maintenance.cleanup({ ...ages, limit: 1 + random(5) })
  }
}

it('after any sequence of steps the invariants hold and everything can be delivered', async () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const world = await begin(seed)
    const { t, database, clock, act } = world
    for (let i = 0; i < STEPS; i++) {
      await step(world)
      expect(checkInvariants(database), `seed ${seed}, step ${i}`).toEqual([])
    }
    for (const one of world.open) await one.commit()
    for (let round = 0; round < 300; round++) {
      clock.now += 10
      await expand(world)
      await work(world, () => 0)
      await t.store.operations.redrive({ destination: 'alpha', limit: 5 }, act)
      await t.store.operations.redrive({ destination: 'beta', limit: 5 }, act)
    }
    const left = await t.store.inspection.list({
      status: ['pending', 'retry', 'scheduled', 'held', 'dead'],
      limit: 9,
    })
    expect(left.deliveries, `seed ${seed}`).toEqual([])
    expect(checkInvariants(database)).toEqual([])
  }
}, 60_000)
