/** A pulled batch that its consumer never ends: it is given up at `hardDeadlineMs`, like a handler that never ends. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, expect, it, vi } from 'vitest'
import { type DestinationOptions, type FailureReport, fixed } from '../../src/index.ts'
import { createFakeRuntime, type FakeRuntime } from '../../src/testing/fake-runtime.ts'
import {
  createMemoryDatabase,
  createTestOutbox,
  type TestOutbox,
  type TestOutboxOptions,
} from '../../src/testing/index.ts'

const DEADLINE_MS = 60_000
const RETRY_MS = 1_000
const NOTHING = { code: 'POSTHASTE_NO_DELIVERIES' }

type Tested = TestOutbox<'pulled' | 'local'>

const pulling = (
  options: TestOutboxOptions = {},
  destination: DestinationOptions = { events: ['*'] },
): Tested =>
  createTestOutbox({
    hardDeadlineMs: DEADLINE_MS,
    retry: fixed({ delayMs: RETRY_MS, maxAttempts: 3 }),
    serve: [],
    ...options,
    destinations: { pulled: destination },
  })

const publish = ({ outbox }: Tested, payloads: readonly number[], key: string | null = null) =>
  outbox.transaction((tx) =>
    outbox.publishMany(
      tx,
      payloads.map((payload) => ({ type: 'tick', payload, key })),
    ),
  )

const fetch = ({ outbox }: Tested) => outbox.fetch({ destination: 'pulled', limit: 500 })

/** A consumer that throws, and has not said `await using`. */
const forget = async (t: Tested) => {
  const { deliveries } = await fetch(t)
  return deliveries.map(({ event, attempt }) => [event.payload, attempt])
}

/** The clock stands still meanwhile, so that nothing can be waited for. */
const expectToStopAtOnce = async ({ outbox }: Tested, runtime: FakeRuntime) => {
  const stopped = vi.fn()
  void outbox.stop().then(stopped)
  await runtime.settle()
  expect(stopped.mock.calls).toEqual([[{ clean: true }]])
  expect(runtime.nextTimerInMs).toBeNull()
}

describe('a batch that nobody ends', () => {
  it('and that is left behind by a stop fails nobody: nothing of it can be written', async () => {
    const failures: FailureReport[] = []
    await using t = pulling({ drainMs: 10, onFailure: (failure) => void failures.push(failure) })
    await publish(t, [1])
    await forget(t)
    const stopped = t.outbox.stop()
    await t.advance(1_000)
    expect(await stopped).toEqual({ clean: false })
    await t.advance(DEADLINE_MS)
    expect(failures).toEqual([])
  })

  it('is given up at the hard deadline: an attempt has failed, and the deliveries are handed out again', async () => {
    const failures: FailureReport[] = []
    await using t = pulling({ onFailure: (failure) => void failures.push(failure) })
    const ids = await publish(t, [1, 2])
    expect(await forget(t)).toEqual([
      [1, 1],
      [2, 1],
    ])
    await t.advance(DEADLINE_MS - 1)
    await expect(fetch(t)).rejects.toMatchObject(NOTHING)
    expect(failures).toEqual([])
    await t.advance(1)
    expect(failures).toMatchObject([
      { attempt: 1, verdict: 'retry', error: { code: 'POSTHASTE_DEADLINE' } },
      { attempt: 1, verdict: 'retry', error: { code: 'POSTHASTE_DEADLINE' } },
    ])
    for (const id of ids) {
      expect(await t.outbox.inspect.event(id)).toMatchObject({
        deliveries: [{ status: 'retry', attempts: 1 }],
        attempts: [
          {
            code: 'POSTHASTE_DEADLINE',
            durationMs: DEADLINE_MS,
            message: expect.stringMatching(/"pulled".* 60000 ms .*rollback\(\).*hardDeadlineMs/),
          },
        ],
      })
    }
    await t.advance(RETRY_MS)
    await using again = await fetch(t)
    expect(again.deliveries.map(({ attempt }) => attempt)).toEqual([2, 2])
  })

  it('buries its deliveries at their limit, so that a key goes on behind an event nobody survives', async () => {
    await using t = pulling()
    const [poison] = await publish(t, [1, 2], 'k')
    for (const attempt of [1, 2, 3]) {
      expect(await forget(t)).toEqual([[1, attempt]])
      await t.advance(DEADLINE_MS + RETRY_MS)
    }
    expect(await t.outbox.inspect.event(poison as string)).toMatchObject({
      deliveries: [{ status: 'dead', attempts: 3 }],
    })
    await using next = await fetch(t)
    expect(next.deliveries.map(({ event }) => event.payload)).toEqual([2])
  })

  it('is judged by the classifier, as a handler that never ends is', async () => {
    const asked: unknown[] = []
    const classify = (error: unknown) => {
      asked.push(error)
      return 'dead' as const
    }
    await using t = pulling({}, { events: ['*'], classify })
    const [id] = await publish(t, [1])
    await forget(t)
    await t.advance(DEADLINE_MS)
    expect(asked).toMatchObject([{ code: 'POSTHASTE_DEADLINE' }])
    expect(await t.outbox.inspect.event(id as string)).toMatchObject({ deliveries: [{ status: 'dead' }] })
  })

  it('keeps no lane from another process any longer', async () => {
    const [clock, database] = [createFakeRuntime(), createMemoryDatabase()]
    await using a = pulling({ clock, database, laneLeaseMs: 3_000 })
    await using b = pulling({ clock, database, laneLeaseMs: 3_000 })
    const lanes = async () => (await a.outbox.inspect.workers()).map((worker) => worker.lanes).sort()
    const payloads = Array.from({ length: 500 }, (_, n) => n)
    // Some of every lane.
    await publish(a, payloads)
    expect(await forget(a)).toHaveLength(payloads.length)
    await expect(fetch(b)).rejects.toMatchObject(NOTHING)
    await clock.advance(DEADLINE_MS / 2)
    expect(await lanes()).toEqual([0, 64])
    await clock.advance(DEADLINE_MS)
    expect(await lanes()).toEqual([32, 32])
  })

  it('keeps nobody waiting who stops the outbox after the deadline', async () => {
    const runtime = createFakeRuntime()
    await using t = pulling({ clock: runtime })
    await publish(t, [1])
    await forget(t)
    await t.advance(DEADLINE_MS)
    await expectToStopAtOnce(t, runtime)
  })

  it('does not keep the process, and is not told of in the request that fetched it', async () => {
    const requests = new AsyncLocalStorage<string>()
    const toldIn: unknown[] = []
    const runtime = createFakeRuntime()
    const schedule = vi.spyOn(runtime, 'schedule')
    await using t = pulling({ clock: runtime, onFailure: () => void toldIn.push(requests.getStore()) })
    await publish(t, [1])
    await requests.run('a request', () => forget(t))
    const timers = schedule.mock.calls.filter(([delayMs]) => delayMs === DEADLINE_MS)
    expect(timers.map(([, , options]) => options)).toEqual([{ background: true }])
    await t.advance(DEADLINE_MS)
    expect(toldIn).toEqual([undefined])
  })
})

describe('a consumer that comes back', () => {
  it.each(['commit', 'rollback'] as const)(
    'in time ends its batch with %s, and no deadline follows',
    async (end) => {
      const failures: FailureReport[] = []
      const runtime = createFakeRuntime()
      await using t = pulling({ clock: runtime, onFailure: (failure) => void failures.push(failure) })
      const [id] = await publish(t, [1])
      const batch = await fetch(t)
      await t.advance(DEADLINE_MS - 1)
      batch.ack()
      await batch[end]()
      await t.advance(DEADLINE_MS)
      expect(failures).toEqual([])
      expect(await t.outbox.inspect.event(id as string)).toMatchObject({
        deliveries: [{ status: end === 'commit' ? 'done' : 'pending' }],
        attempts: [],
      })
      expect(await t.outbox.stop()).toEqual({ clean: true })
      expect(runtime.nextTimerInMs).toBeNull()
    },
  )

  it('too late is told that the batch has ended; what it had decided is not written', async () => {
    await using t = pulling()
    const ids = await publish(t, [1, 2, 3])
    const batch = await fetch(t)
    const [one, two, three] = batch.deliveries.map(({ id }) => id) as [string, string, string]
    batch.ack(one)
    batch.dead(two, new Error('never'))
    await t.advance(DEADLINE_MS)
    const refused = {
      code: 'POSTHASTE_CONFLICT',
      message: expect.stringMatching(/has ended.*hardDeadlineMs.*given up/),
      detail: { deliveryIds: [one, two] },
    }
    expect(() => batch.ack(three)).toThrow(expect.objectContaining(refused))
    expect(() => batch.ack()).toThrow(expect.objectContaining(refused))
    expect(() => batch.fail(one, new Error('no'))).toThrow(expect.objectContaining(refused))
    expect(() => batch.dead(one, new Error('no'))).toThrow(expect.objectContaining(refused))
    await expect(batch.commit()).rejects.toMatchObject(refused)
    await batch.rollback()
    for (const id of ids)
      expect(await t.outbox.inspect.event(id)).toMatchObject({
        deliveries: [{ status: 'retry', attempts: 1 }],
      })
  })

  it('too late changes nothing of the batch that has the deliveries by then', async () => {
    await using t = pulling()
    const [id] = await publish(t, [1])
    const late = await fetch(t)
    late.ack()
    await t.advance(DEADLINE_MS + RETRY_MS)
    const current = await fetch(t)
    await expect(late.commit()).rejects.toMatchObject({ code: 'POSTHASTE_CONFLICT' })
    await late[Symbol.asyncDispose]()
    current.ack()
    await current.commit()
    expect(await t.outbox.inspect.event(id as string)).toMatchObject({
      deliveries: [{ status: 'done', attempts: 2 }],
    })
  })
})
