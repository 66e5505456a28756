import { describe, expect, it } from 'vitest'
import { createMemoryDatabase, type MemoryStore, memoryStore } from '../../../stores/memory/index.ts'
import { createFakeRuntime } from '../../../testing/fake-runtime.ts'
import type { Registry } from '../../spi/index.ts'
import { Routes } from '../routes.ts'
import { reconcilerDuty } from './reconciler.ts'

const OLD = [{ name: 'hooks', patterns: ['order.placed'] }]
const NEW = [{ name: 'hooks', patterns: ['order.placed', 'order.paid'] }]

/** An older process has published `order.paid` after a newer one declared that hooks hears it. */
const createWorld = async () => {
  const runtime = createFakeRuntime()
  const database = createMemoryDatabase()
  const store: MemoryStore = memoryStore({ database })
  await store.open({ runtime, logger: { log: () => undefined } })
  const routes = new Routes(OLD, { log: () => undefined }, () => undefined)
  const stale = await store.registry.declare(OLD)
  await routes.learn(() => Promise.resolve(stale))
  await store.registry.declare(NEW)
  await store.transactions.run(async (tx) => {
    await store.insert(tx, {
      events: [missedEvent(stale.version)],
      deliveries: [],
      hotLeaseMs: 1_000,
      lockKeys: false,
    })
  })
  let ids = 0
  const newId = (): string => {
    ids += 1
    return `00000000-0000-7000-8000-00000000010${ids}`
  }
  const step = (registry: Partial<Registry>): Promise<boolean> => {
    const given = { ...store, registry: { ...store.registry, ...registry } }
    return reconcilerDuty(given, routes, newId, () => undefined).step()
  }
  const added = (): string[] => [...database.deliveries.values()].map(({ destination }) => destination)
  return { store, stale, step, added }
}

const missedEvent = (routesVersion: number) => ({
  id: '00000000-0000-7000-8000-000000000001',
  type: 'order.paid',
  version: 1,
  key: null,
  data: '{}',
  contentType: 'application/json',
  size: 2,
  headers: {},
  aggregateType: null,
  aggregateId: null,
  tenantId: null,
  occurredAtMs: 0,
  createdAtMs: 0,
  replacesId: null,
  routesVersion,
  idempotencyKey: null,
})

describe('the reconciler', () => {
  it('goes by patterns that are no older than what it found', async () => {
    const { store, stale, step, added } = await createWorld()
    let loads = 0
    const load: Registry['load'] = async () => {
      loads += 1
      // The first answer was on its way while the newer process declared its patterns.
      return loads === 1 ? stale : await store.registry.load()
    }
    await step({ load })
    expect(added()).toEqual(['hooks'])
  })

  it('passes over nothing while the registry cannot be read', async () => {
    const { step, added } = await createWorld()
    const load: Registry['load'] = () => Promise.reject(new Error('the connection was lost'))
    expect(await step({ load })).toBe(false)
    expect(added()).toEqual([])
    await step({})
    expect(added()).toEqual(['hooks'])
  })
})
