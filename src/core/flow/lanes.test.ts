import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import { LANES } from '../model/lane.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import { NOOP_METRICS } from '../runtime/metrics.ts'
import type { OwnedLane, Store } from '../spi/index.ts'
import { Lanes } from './lanes.ts'
import { LeaseWatch } from './lease-watch.ts'

const LEASE_MS = 10_000
const RENEW_MS = 3_000

const all = (epoch: number): OwnedLane[] => Array.from({ length: LANES }, (_, lane) => ({ lane, epoch }))

/** One worker of one destination, and a database that says what the test wants it to. */
const create = async () => {
  const runtime = createFakeRuntime()
  const database = { alive: true, workers: 1, mine: all(1), answerMs: 0, busy: false, loseGiveUp: false }
  const underWay = new Set<number>()
  const givenUp: OwnedLane[][] = []
  const gained: { gained: readonly number[]; unclean: readonly number[] }[] = []
  let ids = 0
  const store = {
    lanes: {
      register: async () => undefined,
      renew: async () => {
        runtime.stall(database.answerMs)
        return database.alive
      },
      survey: async () => ({
        alive: database.alive,
        destinations: new Map([['x', { workers: database.workers, mine: database.mine, free: 0 }]]),
        others: [],
      }),
      take: async () => [],
      giveUp: async (_worker: string, _destination: string, lanes: OwnedLane[]) => {
        givenUp.push(lanes)
        if (database.loseGiveUp) throw new Error('no answer')
        database.mine = database.mine.filter(({ lane }) => !lanes.some((given) => given.lane === lane))
      },
    },
  } as unknown as Store
  const newId = (): string => {
    ids += 1
    return `w${ids}`
  }
  const lanes = new Lanes(
    {
      store,
      runtime,
      logger: SILENT_LOGGER,
      metrics: NOOP_METRICS,
      newId,
      watch: new LeaseWatch(),
    },
    { leaseMs: LEASE_MS, renewMs: RENEW_MS, destinations: ['x'] },
    {
      changed: (_destination, change) => void gained.push(change),
      fenced: () => undefined,
      isBusy: () => database.busy,
      isUnderWay: (_destination, lane) => underWay.has(lane),
      openBreakers: () => [],
      renewed: () => undefined,
    },
  )
  await lanes.beat()
  return { lanes, database, runtime, givenUp, gained, underWay }
}

describe('a lane that is to be given up', () => {
  it('is kept while something of it is in flight, and nothing new is taken from it', async () => {
    const { lanes, database, givenUp } = await create()
    database.busy = true
    database.workers = 2
    await lanes.beat()
    expect(givenUp).toEqual([])
    const usable = all(1).filter(({ lane }) => lanes.owns('x', lane))
    expect(usable).toHaveLength(LANES / 2)
    expect(lanes.readable('x')?.lanes).toEqual(usable.map(({ lane }) => lane))
    database.busy = false
    await lanes.beat()
    expect(givenUp.flat()).toHaveLength(LANES / 2)
  })

  it('is one of which nothing is under way, as long as there are such: the others would wait for slow handlers', async () => {
    const { lanes, database, givenUp, underWay } = await create()
    for (let lane = 0; lane < LANES / 2 + 1; lane += 1) underWay.add(lane)
    database.workers = 2
    await lanes.beat()
    const left = givenUp.flat().map(({ lane }) => lane)
    expect(left).toHaveLength(LANES / 2)
    expect(left.filter((lane) => underWay.has(lane))).toEqual([0])
  })

  it('is not used again when nobody answered, whatever the database says of it', async () => {
    const { lanes, database, givenUp } = await create()
    database.workers = 2
    database.loseGiveUp = true
    await lanes.beat()
    expect(database.mine).toHaveLength(LANES)
    expect(lanes.count('x')).toBe(LANES / 2)
    database.loseGiveUp = false
    await lanes.beat()
    expect(givenUp[1]).toEqual(givenUp[0])
    expect(lanes.count('x')).toBe(LANES / 2)
  })
})

describe('a lane of another epoch', () => {
  it('was somebody else’s in between, so what was read before counts no more', async () => {
    const { lanes, database, gained } = await create()
    const { losses } = lanes
    database.mine = all(1).map(({ lane, epoch }) => ({ lane, epoch: lane === 5 ? epoch + 2 : epoch }))
    await lanes.beat()
    expect(lanes.losses).toBe(losses + 1)
    expect(gained.at(-1)).toEqual({ gained: [5], unclean: [5] })
  })
})

describe('a lease', () => {
  it('counts from before it was asked for, not from the answer', async () => {
    const { lanes, database, runtime } = await create()
    runtime.stall(RENEW_MS)
    database.answerMs = 4_000
    await lanes.beat()
    runtime.stall(LEASE_MS - database.answerMs - 1)
    expect(lanes.isValid(lanes.workerId)).toBe(true)
    runtime.stall(1)
    expect(lanes.isValid(lanes.workerId)).toBe(false)
  })

  it('that was not renewed in time leaves nothing, and the next round has another id', async () => {
    const { lanes, database, runtime } = await create()
    const { workerId, losses } = lanes
    runtime.stall(RENEW_MS)
    database.alive = false
    await lanes.beat()
    expect(lanes.workerId).not.toBe(workerId)
    expect(lanes.isValid(workerId)).toBe(false)
    expect(lanes.count('x')).toBe(0)
    expect(lanes.losses).toBe(losses + 1)
  })
})
