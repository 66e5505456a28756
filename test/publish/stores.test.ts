/** The same journeys on the stores themselves: what is offered is exactly what a reader of the tables would find. */
import Database from 'libsql'
import { afterEach, describe, expect, it } from 'vitest'
import { createPublishing, type PublishingParts } from '../../src/core/flow/transactions-api.ts'
import { UnderWay } from '../../src/core/flow/under-way.ts'
import { resolveOptions } from '../../src/core/options.ts'
import { SILENT_LOGGER } from '../../src/core/runtime/logger.ts'
import { NOOP_METRICS } from '../../src/core/runtime/metrics.ts'
import { createSystemRuntime } from '../../src/core/runtime/system-runtime.ts'
import type { Store } from '../../src/core/spi/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { FakeIntake } from './fixture.ts'

const closers: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

const open = async <Tx, E>(store: Store<Tx, E>) => {
  const runtime = createSystemRuntime()
  await store.open({ runtime, logger: SILENT_LOGGER })
  closers.push(() => store.close())
  await store.schema.migrate()
  await store.registry.declare([{ name: 'local', patterns: ['*'] }])
  const intake = new FakeIntake()
  const parts: PublishingParts<Tx, E> = {
    store,
    transactions: store.transactions,
    options: resolveOptions({ store }),
    runtime,
    logger: SILENT_LOGGER,
    metrics: NOOP_METRICS,
    intake,
    isClosed: () => false,
    underWay: new UnderWay(),
  }
  const stored = async () => {
    const { deliveries } = await store.inspection.list({ limit: 1_000, order: 'oldest' })
    return deliveries
  }
  return { outbox: createPublishing(parts), intake, stored }
}

/** Generic over the handle, so that the journeys are written once. */
type Opened = Awaited<ReturnType<typeof open<object, unknown>>>

const stores: readonly [string, () => Promise<Opened>][] = [
  ['memory', async () => (await open(memoryStore())) as unknown as Opened],
  [
    'SQLite',
    async () => (await open(sqliteStore({ file: ':memory:', driver: 'libsql' }))) as unknown as Opened,
  ],
]

const event = (type: string, more: object = {}) => ({ type, payload: { text: 'é', n: 1.5 }, ...more })

const types = async ({ stored }: Opened): Promise<string[]> =>
  (await stored()).map((delivery) => delivery.type)

describe.each(stores)('publishing on %s', (_name, create) => {
  it('stores what was committed, offers it, and neither after a rollback', async () => {
    const world = await create()
    const { outbox, intake } = world
    const id = await outbox.transaction((tx) => outbox.publish(tx, event('kept')))
    const undone = outbox.transaction(async (tx) => {
      await outbox.publish(tx, event('undone'))
      throw new Error('business')
    })
    await expect(undone).rejects.toThrow('business')
    expect(await world.stored()).toMatchObject([{ eventId: id, type: 'kept', status: 'pending' }])
    expect(intake.types).toEqual(['kept'])
    expect(intake.offered[0]?.token).toEqual(expect.any(String))
    expect((await world.stored()).map((delivery) => delivery.id)).toEqual(intake.offered.map((hot) => hot.id))
  })

  it('[5] keeps savepoints apart', async () => {
    const world = await create()
    const { outbox, intake } = world
    await outbox.transaction(async () => {
      await outbox.publish(event('a'))
      const undone = outbox.transaction(async () => {
        await outbox.publish(event('undone'))
        await outbox.transaction(() => outbox.publish(event('undone too')))
        throw new Error('undo')
      })
      await expect(undone).rejects.toThrow('undo')
      await outbox.transaction(() => outbox.publish(event('b')))
      await outbox.publish(event('c'))
    })
    expect(await types(world)).toEqual(['a', 'b', 'c'])
    expect(intake.types).toEqual(['a', 'b', 'c'])
  })

  it('[8] waits for publishes that nobody awaited, and refuses late ones', async () => {
    const world = await create()
    const { outbox, intake } = world
    let kept: object | undefined
    await outbox.transaction((tx) => {
      kept = tx
      void outbox.publish(tx, event('a'))
      void outbox.publish(tx, event('b'))
    })
    await expect(outbox.publish(kept as object, event('late'))).rejects.toMatchObject({
      code: 'POSTHASTE_TRANSACTION_ENDED',
    })
    expect(await types(world)).toEqual(['a', 'b'])
    expect(intake.types).toEqual(['a', 'b'])
  })

  it('[6] lets one transaction after another use the connection', async () => {
    const world = await create()
    const { outbox, intake } = world
    const runs = Array.from({ length: 20 }, (_, n) =>
      outbox.transaction(async (tx) => {
        await outbox.publish(tx, event(`e${n}`))
        if (n % 3 === 0) throw new Error('undo')
      }),
    )
    await Promise.allSettled(runs)
    expect(intake.types.toSorted()).toEqual((await types(world)).toSorted())
    expect(intake.offered).toHaveLength(13)
  })

  it('begins and ends by hand', async () => {
    const world = await create()
    const { outbox, intake } = world
    {
      await using tx = await outbox.begin()
      await tx.publish(event('undone'))
    }
    await using tx = await outbox.begin()
    await outbox.publish(tx, event('kept'))
    await tx.commit()
    expect(await types(world)).toEqual(['kept'])
    expect(intake.types).toEqual(['kept'])
  })

  it('returns the first id for a duplicate, in the same transaction and in a later one', async () => {
    const world = await create()
    const { outbox, intake } = world
    const same = event('a', { idempotencyKey: 'k' })
    const ids = await outbox.transaction(async (tx) => [
      await outbox.publish(tx, same),
      await outbox.publish(tx, same),
    ])
    const later = await outbox.transaction((tx) => outbox.publishMany(tx, [same, event('b')]))
    expect(ids[1]).toBe(ids[0])
    expect(later[0]).toBe(ids[0])
    expect(await types(world)).toEqual(['a', 'b'])
    expect(intake.types).toEqual(['a', 'b'])
  })

  it('takes the retry of a draft with an id and an idempotency key for what it is', async () => {
    const world = await create()
    const { outbox, intake } = world
    const id = '018f0000-0000-7000-8000-0000000000ab'
    const draft = event('a', { id, idempotencyKey: 'k' })
    const publish = () => outbox.transaction((tx) => outbox.publish(tx, draft))
    expect([await publish(), await publish()]).toEqual([id, id])
    expect(await types(world)).toEqual(['a'])
    expect(intake.types).toEqual(['a'])
  })

  it('leaves the idempotency key free when a publish failed and the transaction went on', async () => {
    const world = await create()
    const { outbox } = world
    const id = '018f0000-0000-7000-8000-0000000000ab'
    await outbox.transaction((tx) => outbox.publish(tx, event('first', { id })))
    await outbox.transaction(async (tx) => {
      const failing = outbox.publish(tx, event('a', { id, idempotencyKey: 'k' }))
      await expect(failing).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    })
    await outbox.transaction((tx) => outbox.publish(tx, event('a', { idempotencyKey: 'k' })))
    expect(await types(world)).toEqual(['first', 'a'])
  })

  it('does not claim a row that was there already under an id of the caller’s', async () => {
    const world = await create()
    const { outbox, intake } = world
    const mine = event('a', { id: '018f0000-0000-7000-8000-0000000000ab' })
    await outbox.transaction((tx) => outbox.publish(tx, mine))
    await outbox.transaction((tx) => outbox.publish(tx, mine)).catch(() => undefined)
    expect(await world.stored()).toHaveLength(1)
    expect(intake.offered.every((hot) => hot.token === null)).toBe(true)
  })

  it('publishes synchronously', async () => {
    const world = await create()
    const { outbox, intake } = world
    await outbox.transaction((tx) => {
      outbox.publishSync(tx, event('a'))
      outbox.publishSync(tx, [event('b'), event('c')])
    })
    expect(await types(world)).toEqual(['a', 'b', 'c'])
    expect(intake.types).toEqual(['a', 'b', 'c'])
  })

  it('stores delayed events as scheduled and thousands in one call', async () => {
    const world = await create()
    const { outbox } = world
    const many = Array.from({ length: 500 }, (_, n) => event('many', { key: `k${n}`, delayMs: 60_000 }))
    await outbox.transaction((tx) => outbox.publishMany(tx, many))
    const stored = await world.stored()
    expect(stored).toHaveLength(500)
    expect(new Set(stored.map((delivery) => delivery.status))).toEqual(new Set(['scheduled']))
  })
})

describe('publishing on an SQLite handle of the application’s own', () => {
  it('claims nothing at birth, because a savepoint may be undone on the raw handle', async () => {
    const database = new Database(':memory:')
    const { outbox, intake, stored } = await open(sqliteStore({ database }))
    await outbox.transaction(async (tx) => {
      database.exec('SAVEPOINT z')
      await outbox.publish(tx, event('undone'))
      database.exec('ROLLBACK TO z')
      await outbox.publish(tx, event('kept'))
    })
    expect((await stored()).map(({ type }) => type)).toEqual(['kept'])
    // Without a token a row is looked up before it is sent, and the one that is gone is not sent.
    expect(intake.offered.map(({ token }) => token)).toEqual([null, null])
  })
})
