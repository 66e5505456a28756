/** What must hold between the previous release and these sources, on any database. */
import { describe, expect, it } from 'vitest'
import { loadLibrary, openStore } from '../../chaos/databases/stores.ts'
import type { DeliveryStatus, Outbox } from '../../src/index.ts'
import { createBell } from '../../src/testing/bell.ts'
import { arrived, arrivedAt, judge } from '../databases/crew/ledger.ts'
import { Crew, type Member } from './crew.ts'
import { type Ground, migrateFurther } from './grounds.ts'
import { previousBuild, release } from './previous.ts'

const KEYS = 20
const CHUNK = 40
const RETRY_MS = 1_000
/** Nobody takes over here, however long the machine stands still. */
const ENDURING_LEASE_MS = 300_000
/** What a process that is killed leaves is taken over. */
const SHORT_LEASE_MS = 2_000
const UNFINISHED = ['pending', 'retry', 'scheduled', 'held'] as const

interface Payload {
  readonly n: number
  readonly does: 'accept' | 'retry' | 'refuse'
}

interface Heard {
  readonly n: number
  readonly attempt: number
  readonly run: number
}

interface Station {
  readonly outbox: Outbox<never, never>
  readonly heard: Heard[]
  publish(payload: Payload, more?: { key?: string; delayMs?: number }): Promise<void>
  /** Resolves when this many deliveries have one of these states. */
  until(statuses: readonly DeliveryStatus[], count: number): Promise<void>
}

/** An outbox of a build; without `serves` it only publishes, and without `routed` it does not know where to. */
const station = async (
  ground: Ground,
  build: string | null,
  { serves = true, routed = true, obeys = false, migrate = true } = {},
): Promise<Station> => {
  const { createOutbox, fixed, PermanentError } = await loadLibrary(build)
  const bell = createBell()
  const heard: Heard[] = []
  const outbox = createOutbox({
    store: await openStore(ground.place, build, ground.name),
    destinations: routed
      ? { sink: { events: ['*'], retry: fixed({ delayMs: RETRY_MS, maxAttempts: 5 }) } }
      : {},
    migrate,
    pollIntervalMs: 20,
    pollIdleMaxMs: 100,
    ...(serves ? {} : { serve: [] }),
  }) as unknown as Outbox<never, never>
  if (serves) {
    outbox.on<Payload>('sink', '*', ({ payload: { n, does } }, { attempt, run }) => {
      setImmediate(bell.ring)
      if (obeys && does === 'retry') throw new Error('not now')
      if (obeys && does === 'refuse') throw new PermanentError('never')
      heard.push({ n, attempt, run })
    })
    await outbox.start()
  }
  const timer = setInterval(bell.ring, 20)
  timer.unref()
  return {
    outbox,
    heard,
    publish: async (payload, more = {}) => {
      await outbox.transaction((tx) => outbox.publish(tx, { type: 'tick', payload, ...more }))
    },
    until: (statuses, count) =>
      bell.until(async () => {
        const { deliveries } = await outbox.inspect.list({ status: [...statuses], limit: 100 })
        return deliveries.length === count
      }),
  }
}

/** Events in every state that there is, made by the previous release. */
const fill = async (ground: Ground): Promise<void> => {
  const build = previousBuild()
  const serving = await station(ground, build, { obeys: true })
  await serving.publish({ n: 0, does: 'accept' })
  await serving.publish({ n: 1, does: 'accept' }, { key: 'a' })
  await serving.publish({ n: 3, does: 'refuse' })
  await serving.until(['dead'], 1)
  expect(await serving.outbox.operator.discard({ destination: 'sink' })).toBe(1)
  await serving.publish({ n: 2, does: 'refuse' })
  await serving.until(['dead'], 1)
  await serving.publish({ n: 10, does: 'retry' }, { key: 'r' })
  await serving.until(['retry'], 1)
  for (const n of [11, 12]) await serving.publish({ n, does: 'accept' }, { key: 'r' })
  await serving.until(['held'], 2)
  await serving.until(['done'], 2)
  await serving.publish({ n: 20, does: 'accept' }, { key: 's', delayMs: 2_000 })
  await serving.outbox.close()
  const strange = await station(ground, build, { serves: false, routed: false })
  await strange.publish({ n: 30, does: 'accept' }, { key: 'u' })
  await strange.outbox.close()
  const silent = await station(ground, build, { serves: false })
  for (const n of [40, 41, 42]) await silent.publish({ n, does: 'accept' }, { key: 'p' })
  await silent.publish({ n: 43, does: 'accept' })
  const { deliveries } = await silent.outbox.inspect.list({ limit: 100 })
  expect(new Set(deliveries.map(({ status }) => status))).toEqual(
    new Set(['pending', 'done', 'retry', 'dead', 'discarded', 'scheduled', 'held']),
  )
  await silent.outbox.close()
}

/** Publishes with both members until the work is done; returns how many events there are. */
const underLoad = async (writers: readonly Member[], work: () => Promise<void>): Promise<number> => {
  let working = true
  let count = 0
  const worked = work().finally(() => {
    working = false
  })
  while (working) {
    const numbers = Array.from({ length: CHUNK }, (_, i) => count + i)
    count += CHUNK
    // Each has keys of its own, so the order of a key is the order in which it commits.
    await Promise.all(
      writers.map((writer, at) =>
        writer.publish({ numbers: numbers.filter((n) => (n % KEYS) % writers.length === at), keys: KEYS }),
      ),
    )
  }
  await worked
  return count
}

export const compatibilityCases = (title: string, open: () => Ground): unknown =>
  describe(`${release.version} and these sources on ${title}`, { timeout: 240_000 }, () => {
    it('[47] what the older one left in every state is delivered by the newer one, once and in order', async () => {
      await using ground = open()
      await fill(ground)
      const { outbox, heard, until } = await station(ground, null)
      await until(UNFINISHED, 0)
      expect(heard.map(({ n }) => n).toSorted((a, b) => a - b)).toEqual([10, 11, 12, 20, 30, 40, 41, 42, 43])
      for (const key of [
        [10, 11, 12],
        [40, 41, 42],
      ])
        expect(heard.map(({ n }) => n).filter((n) => key.includes(n))).toEqual(key)
      expect(heard.find(({ n }) => n === 10)?.attempt).toBeGreaterThan(1)
      expect(await outbox.operator.redrive({ destination: 'sink' })).toBe(1)
      await until([...UNFINISHED, 'dead'], 0)
      expect(heard.at(-1)).toMatchObject({ n: 2, run: 2 })
      await outbox.close()
    })

    it.each([
      ['the older one publishes, the newer one delivers', 'older', 'newer'],
      ['the newer one publishes, the older one delivers', 'newer', 'older'],
    ])('[47] %s', async (_title, writes, serves) => {
      await using ground = open()
      await (await station(ground, previousBuild())).outbox.close()
      await (await station(ground, null)).outbox.close()
      await using crew = new Crew(ground, ENDURING_LEASE_MS)
      const buildOf = (which: string): string | null => (which === 'older' ? previousBuild() : null)
      const worker = await crew.member(buildOf(serves), true)
      const writer = await crew.member(buildOf(writes), false)
      const count = await underLoad([writer], () =>
        crew.until('some arrived', () => arrived(crew.ledger) > 3 * CHUNK),
      )
      await crew.until('all arrived', () => arrived(crew.ledger) === count)
      expect(await worker.stop()).toBe(0)
      expect(await writer.stop()).toBe(0)
      expect(judge(crew.ledger, count, KEYS, [])).toEqual({
        lost: [],
        disorder: [],
        duplicates: 0,
        inFlight: 0,
      })
    })

    it('[47] both publish and deliver, lanes go from one to the other, and the tables grow meanwhile', async () => {
      await using ground = open()
      const older = previousBuild()
      await (await station(ground, older)).outbox.close()
      await (await station(ground, null)).outbox.close()
      await using crew = new Crew(ground, SHORT_LEASE_MS)
      const writers = await Promise.all([crew.member(older, true), crew.member(null, true)])
      const killed: number[] = []
      const works = (member: Member): Promise<void> =>
        crew.until(`${member.pid} delivers`, () => arrivedAt(crew.ledger, member.pid) > 0)
      const count = await underLoad(writers, async () => {
        for (const writer of writers) await works(writer)
        let third = await crew.member(older, true)
        await works(third)
        await migrateFurther(ground)
        // In turns of builds; the first goes as a deployment ends it, the others as a crash does.
        for (const build of [null, older, null]) {
          if (build === null && killed.length === 0) expect(await third.stop()).toBe(0)
          else {
            killed.push(third.pid)
            await third.kill()
          }
          third = await crew.member(build, true)
          await works(third)
        }
      })
      await crew.until('all arrived', () => arrived(crew.ledger) === count)
      const verdict = judge(crew.ledger, count, KEYS, killed)
      expect(verdict).toMatchObject({ lost: [], disorder: [] })
      expect(verdict.duplicates).toBeLessThanOrEqual(verdict.inFlight)
    })

    it('[47] one that is told to migrate refuses tables that are newer, and leaves them as they are', async () => {
      await using ground = open()
      await (await station(ground, previousBuild())).outbox.close()
      await migrateFurther(ground)
      const ahead = { code: 'POSTHASTE_SCHEMA_AHEAD' }
      await expect(station(ground, previousBuild())).rejects.toMatchObject(ahead)
      await expect(station(ground, null)).rejects.toMatchObject(ahead)
      const { outbox, until, publish } = await station(ground, previousBuild(), { migrate: false })
      await publish({ n: 0, does: 'accept' })
      await until(['done'], 1)
      await outbox.close()
    })
  })
