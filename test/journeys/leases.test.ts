/** Who may deliver, until when, and by whose clock: crashes, stalls, zombies, clocks that lie. */
import { describe, expect, it } from 'vitest'
import { createSystemRuntime, fixed } from '../../src/index.ts'
import {
  createFakeRuntime,
  createMemoryDatabase,
  createTestOutbox,
  type FakeRuntime,
  recordingDestination,
} from '../../src/testing/index.ts'
import { gate } from './world.ts'

const HOUR_MS = 3_600_000
const event = (payload: unknown = {}, more: object = {}) => ({ type: 'order.placed', payload, ...more })

/** Two processes on one database, each with its own time; the database's time is the second one's. */
const twoProcesses = () => {
  const [first, second] = [
    createFakeRuntime({ seed: 1, processName: 'host:1' }),
    createFakeRuntime({ seed: 2, processName: 'host:1' }),
  ]
  const database = createMemoryDatabase({ clock: () => second.wallNow() })
  const options = { destinations: { sink: { events: ['*'], concurrency: 1 } }, database }
  const one = createTestOutbox({ ...options, clock: first })
  const two = createTestOutbox({ ...options, clock: second })
  /** Time passes for everybody. */
  const advance = async (ms: number, ...runtimes: FakeRuntime[]): Promise<void> => {
    for (let left = ms; left > 0; left -= 250) {
      for (const runtime of runtimes) await runtime.advance(Math.min(250, left))
    }
  }
  return { first, second, one, two, advance }
}

describe('a process that is gone', () => {
  it('[18] is replaced within its lease and a little more; nothing of it is lost', async () => {
    const { first, second, one, two, advance } = twoProcesses()
    const heard: unknown[] = []
    one.outbox.on('sink', '*', () => new Promise(() => undefined))
    two.outbox.on('sink', '*', ({ payload }) => void heard.push(payload))
    await one.outbox.start()
    for (let n = 0; n < 20; n += 1) {
      await one.outbox.transaction((tx) =>
        one.outbox.publish(tx, event(n, n % 2 === 0 ? {} : { key: `k${n}` })),
      )
    }
    await first.advance(100)
    // From here on the first process does nothing any more, and says goodbye to nobody.
    await two.outbox.start()
    await advance(14_000, second)
    expect(heard).toEqual([])
    await advance(60_000 - 14_000, second)
    expect([...heard].sort((a, b) => Number(a) - Number(b))).toEqual(Array.from({ length: 20 }, (_, n) => n))
    await two.close()
  })

  it.each([
    ['all lanes', 0],
    ['half of the lanes', 1],
  ])('[18] with %s does not stop processes none of which lives for a lease', async (_what, others) => {
    const clock = createFakeRuntime({ seed: 3 })
    const database = createMemoryDatabase({ clock: () => clock.wallNow() })
    const options = { database, destinations: { sink: { events: ['*'] } }, laneLeaseMs: 15_000 }
    const started = Array.from({ length: others + 1 }, (_, nth) =>
      createTestOutbox({ ...options, clock: createFakeRuntime({ seed: 10 + nth }) }),
    )
    for (const { outbox } of started) outbox.on('sink', '*', () => new Promise(() => undefined))
    for (const { outbox } of started) await outbox.start()
    for (let beats = 0; beats < 8; beats += 1) for (const { advance } of started) await advance(500)
    for (const { outbox } of started.slice(1)) await outbox.stop()
    // From here on nobody is there but who comes every minute, for one round.
    const heard: unknown[] = []
    const keys = Array.from({ length: 20 }, (_, n) => `k${n}`)
    for (let minute = 0; minute < 5; minute += 1) {
      const cron = createTestOutbox({ ...options, clock })
      cron.outbox.on('sink', '*', ({ payload }) => void heard.push(payload))
      await cron.outbox.transaction((tx) =>
        cron.outbox.publishMany(
          tx,
          keys.map((key) => event(`${minute} ${key}`, { key })),
        ),
      )
      while ((await cron.outbox.processOnce()).claimed > 0) {}
      await cron.close()
      await clock.advance(60_000)
    }
    expect(heard).toHaveLength(100)
  })

  it('[18] leaves a claim that is found when it runs out, however long the poller sleeps otherwise', async () => {
    const database = createMemoryDatabase()
    const sink = { sink: { events: ['*'] } }
    await using worker = createTestOutbox({ database, destinations: sink, pollIdleMaxMs: HOUR_MS })
    // Its time stands still, so it does not extend its claim.
    const gone = createTestOutbox({ database, destinations: sink })
    await using writer = createTestOutbox({ database })
    const heard: unknown[] = []
    worker.outbox.on('sink', '*', ({ payload }) => void heard.push(payload))
    gone.outbox.on('sink', '*', () => new Promise(() => undefined))
    await worker.outbox.start()
    await gone.outbox.start()
    await gone.outbox.transaction((tx) => gone.outbox.publish(tx, event('claimed')))
    const claimedAt = worker.runtime.monotonicNow()
    await worker.advance(20_000)
    await writer.outbox.transaction((tx) => writer.outbox.publish(tx, event('later')))
    await worker.outbox.operator.redrive({ destination: 'sink' })
    await worker.advance(claimedAt + 29_950 - worker.runtime.monotonicNow())
    expect(heard).toEqual(['later'])
    // A sweep just before the claim ends.
    await worker.outbox.operator.redrive({ destination: 'sink' })
    await worker.advance(250)
    expect(heard).toEqual(['later', 'claimed'])
  })

  it('[19] and comes back under the same name inherits nothing: its id is new at every boot', async () => {
    const { first, one, two, second, advance } = twoProcesses()
    one.outbox.on('sink', '*', () => new Promise(() => undefined))
    two.outbox.on('sink', '*', () => undefined)
    await one.outbox.start()
    await one.outbox.transaction((tx) => one.outbox.publish(tx, event()))
    await first.advance(10)
    await two.outbox.start()
    const workers = await two.outbox.inspect.workers()
    expect(new Set(workers.map(({ name }) => name))).toEqual(new Set(['host:1']))
    expect(new Set(workers.map(({ workerId }) => workerId)).size).toBe(2)
    expect((await two.deliveries()).map(({ status }) => status)).toEqual(['pending'])
    await advance(60_000, second)
    expect((await two.deliveries()).map(({ status }) => status)).toEqual(['done'])
    await two.close()
  })
})

describe('a process that stalled past its lease', () => {
  it('[15] sends nothing that it had queued: the right is checked by the monotonic clock before every send', async () => {
    const { first, second, one, two, advance } = twoProcesses()
    const mayEnd = gate()
    const heard: string[] = []
    one.outbox.on('sink', '*', async ({ payload }) => {
      heard.push(`one ${String(payload)}`)
      await mayEnd.promise
    })
    two.outbox.on('sink', '*', ({ payload }) => void heard.push(`two ${String(payload)}`))
    await one.outbox.start()
    for (let n = 0; n < 10; n += 1) {
      await one.outbox.transaction((tx) => one.outbox.publish(tx, event(n, n < 5 ? {} : { key: `k${n}` })))
    }
    await first.advance(100)
    expect(heard).toEqual(['one 0'])
    await two.outbox.start()
    // The event loop of the first process is blocked for a minute. The world goes on.
    first.stall(60_000)
    await advance(60_000, second)
    mayEnd.open()
    await advance(30_000, first, second)
    const byOne = heard.filter((text) => text.startsWith('one'))
    expect(byOne, 'only what was under way when it stalled').toEqual(['one 0'])
    const byTwo = heard.filter((text) => text.startsWith('two')).sort()
    expect(byTwo).toEqual(Array.from({ length: 10 }, (_, n) => `two ${n}`))
    await two.close()
    await one.close()
  })

  it('[14] settles nothing afterwards: what its successor wrote stays, and the loss is reported', async () => {
    const { first, second, one, two, advance } = twoProcesses()
    const mayEnd = gate()
    one.outbox.on('sink', '*', () =>
      mayEnd.promise.then(() => Promise.reject(new Error('the zombie failed'))),
    )
    two.outbox.on('sink', '*', () => undefined)
    await one.outbox.start()
    const ids = [
      await one.outbox.transaction((tx) => one.outbox.publish(tx, event(1))),
      await one.outbox.transaction((tx) => one.outbox.publish(tx, event(2, { key: 'k' }))),
    ]
    await first.advance(100)
    await two.outbox.start()
    first.stall(60_000)
    await advance(60_000, second)
    expect((await two.deliveries()).map(({ status }) => status)).toEqual(['done', 'done'])
    mayEnd.open()
    await advance(30_000, first, second)
    for (const id of ids) {
      const detail = await two.outbox.inspect.event(id)
      expect(detail?.deliveries).toHaveLength(1)
      expect(detail?.deliveries[0]).toMatchObject({ status: 'done' })
      expect(detail?.attempts).toEqual([])
    }
    await two.close()
    await one.close()
  })

  it('starts anew by itself and works again', async () => {
    const { first, second, one, two, advance } = twoProcesses()
    const heard: unknown[] = []
    one.outbox.on('sink', '*', ({ payload }) => void heard.push(payload))
    two.outbox.on('sink', '*', ({ payload }) => void heard.push(payload))
    await one.outbox.start()
    await two.outbox.start()
    first.stall(60_000)
    await advance(60_000, second)
    await advance(30_000, first, second)
    await two.close()
    await advance(30_000, first, second)
    await one.outbox.transaction((tx) => one.outbox.publish(tx, event('again', { key: 'k' })))
    await advance(10_000, first, second)
    expect(heard).toEqual(['again'])
    await one.close()
  })
})

describe('clocks that lie', () => {
  it.each([HOUR_MS, -HOUR_MS])(
    '[25] an application %d ms away from its database delivers as ever',
    async (skewMs) => {
      const runtime = createFakeRuntime()
      const database = createMemoryDatabase({ clock: () => runtime.wallNow() + skewMs })
      let failures = 1
      await using t = createTestOutbox({ clock: runtime, database, retry: fixed({ delayMs: 10_000 }) })
      const heard: unknown[] = []
      t.outbox.onAny(({ payload }) => {
        if (payload === 'retried' && failures-- > 0) throw new Error('once')
        heard.push(payload)
      })
      await t.outbox.start()
      await t.outbox.transaction((tx) =>
        t.outbox.publishMany(tx, [
          event('hot'),
          event('keyed', { key: 'k' }),
          event('delayed', { delayMs: 60_000 }),
          event('retried'),
        ]),
      )
      await t.advance(1_000)
      expect([...heard].sort()).toEqual(['hot', 'keyed'])
      await t.advance(10_000)
      expect([...heard].sort()).toEqual(['hot', 'keyed', 'retried'])
      await t.advance(60_000)
      expect([...heard].sort()).toEqual(['delayed', 'hot', 'keyed', 'retried'])
    },
  )

  it.each([HOUR_MS, -HOUR_MS])(
    '[26] a clock that steps by %d ms loses nothing, and stalls no longer than the step',
    async (stepMs) => {
      const runtime = createFakeRuntime()
      await using t = createTestOutbox({ clock: runtime, retry: fixed({ delayMs: 5_000 }) })
      const heard: unknown[] = []
      let failures = 1
      t.outbox.onAny(({ payload }) => {
        if (payload === 'retried' && failures-- > 0) throw new Error('once')
        heard.push(payload)
      })
      await t.outbox.start()
      await t.outbox.transaction((tx) =>
        t.outbox.publishMany(tx, [event('retried'), event('delayed', { delayMs: 5_000 })]),
      )
      await t.advance(100)
      runtime.stepWallClock(stepMs)
      await t.outbox.transaction((tx) =>
        t.outbox.publishMany(tx, [event('new'), event('keyed', { key: 'k' })]),
      )
      await t.advance(15_000)
      expect(heard).toEqual(expect.arrayContaining(['new', 'keyed']))
      await t.advance(Math.max(0, -stepMs) + 60_000)
      expect([...heard].sort()).toEqual(['delayed', 'keyed', 'new', 'retried'])
    },
  )

  it.each([
    ['an hour', HOUR_MS, 'that was there before'],
    ['two minutes', 120_000, 'that starts just then'],
  ])(
    '[26] a database whose clock is set ahead by %s gives no lane to a second process while the first one counts on it (%d ms; one %s)',
    async (_step, stepMs, when) => {
      const [first, second] = [createFakeRuntime({ seed: 1 }), createFakeRuntime({ seed: 2 })]
      let aheadMs = 0
      const database = createMemoryDatabase({ clock: () => second.wallNow() + aheadMs })
      const options = { destinations: { sink: { events: ['*'] } }, database, laneLeaseMs: 15_000 }
      const one = createTestOutbox({ ...options, clock: first })
      const two = createTestOutbox({ ...options, clock: second })
      const [sent, sentToo]: [unknown[], unknown[]] = [[], []]
      one.outbox.on('sink', '*', ({ payload }) => void sent.push(payload))
      two.outbox.on('sink', '*', ({ payload }) => void sentToo.push(payload))
      // Of the first process only the timers stand still: it can neither renew nor read, but its right holds.
      await one.outbox.start()
      if (when === 'that was there before') await two.outbox.start()
      aheadMs = stepMs
      if (when === 'that starts just then') await two.outbox.start()
      await two.outbox.transaction((tx) =>
        two.outbox.publish(tx, event('while it counts on it', { key: 'k' })),
      )
      await second.advance(14_900)
      expect([sent, sentToo]).toEqual([[], []])
      await second.advance(1_000)
      expect([sent, sentToo]).toEqual([[], ['while it counts on it']])
      await two.close()
    },
  )

  it('[28] a wait longer than a timer can count does not fire at once', async () => {
    const runtime = createSystemRuntime()
    const fired: string[] = []
    const cancels = [2 ** 31, 2 ** 40, Number.POSITIVE_INFINITY].map((ms) =>
      runtime.schedule(ms, () => void fired.push(String(ms))),
    )
    await new Promise<void>((resolve) => runtime.schedule(20, resolve))
    for (const cancel of cancels) cancel()
    expect(fired).toEqual([])
  })

  it('[28] an event that is due in a hundred days waits for them', async () => {
    const broker = recordingDestination()
    await using t = createTestOutbox({
      destinations: { broker: { to: broker, events: ['*'] } },
      pollIntervalMs: HOUR_MS,
      pollIdleMaxMs: HOUR_MS,
      laneLeaseMs: 300_000,
      laneRenewMs: 150_000,
    })
    await t.outbox.transaction((tx) => t.outbox.publish(tx, event('far', { delayMs: 100 * 24 * HOUR_MS })))
    await t.drain()
    expect(broker.accepted).toEqual([])
    await t.advance(100 * 24 * HOUR_MS - 1_000)
    await t.drain()
    expect(broker.accepted).toEqual([])
    await t.advance(2_000)
    await t.drain()
    expect(broker.accepted).toHaveLength(1)
  })
})
