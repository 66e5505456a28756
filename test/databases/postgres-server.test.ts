/** A server that is killed, read-only or full, while it is used. It is a server of its own. */
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { killService, startService } from '../../scripts/services/index.ts'
import { PostgresWorld, publishTick, tick } from './postgres-world.ts'
import { createSmallDisk } from './small-disk.ts'
import { codesOf, judge, OUTAGE_CODES, startTraffic, WELL } from './traffic.ts'

const SERVER = 'postgres-new@faults'
/** The first start downloads the server. */
const START_TIMEOUT_MS = 300_000

let url: string

beforeAll(async () => {
  url = await startService(SERVER)
  // A run that was interrupted may have left it read-only.
  const hand = new pg.Client(url)
  await hand.connect()
  await hand.query('ALTER SYSTEM RESET ALL')
  await hand.query('SELECT pg_reload_conf()')
  await hand.end()
}, START_TIMEOUT_MS)

afterAll(() => killService(SERVER), START_TIMEOUT_MS)

/** A commit that was confirmed is on its way to the disk, whatever the server was started with. */
const durable = (address: string): string => {
  const changed = new URL(address)
  changed.searchParams.set('options', '-c synchronous_commit=on')
  return changed.href
}

describe('a server that is killed', () => {
  it('under load, twice: work goes on by itself, nothing is lost, order is kept', {
    timeout: 60_000,
  }, async () => {
    await using world = new PostgresWorld(url)
    const outbox = world.listen(world.outbox({ url: durable(url), laneLeaseMs: 60_000, hotLeaseMs: 2_000 }))
    await outbox.start()
    const traffic = await startTraffic(world, outbox)
    for (let round = 0; round < 2; round += 1) {
      await traffic.commits(80)
      const before = traffic.failures
      await killService(SERVER)
      await world.until(() => traffic.failures > before)
      await startService(SERVER)
    }
    await traffic.commits(80)
    await traffic.stop()
    // The lease outlived the kills, so every settle was repeated until it was written.
    expect(await judge(world, traffic)).toEqual({ ...WELL, duplicates: 0 })
    expect(OUTAGE_CODES).toEqual(expect.arrayContaining(codesOf(traffic.errors)))
  })

  it('before the start: a clear error, and a later start works', async () => {
    await using world = new PostgresWorld(url)
    const outbox = world.listen(world.outbox())
    await killService(SERVER)
    const failed = await outbox.start().catch((error: unknown) => error)
    expect(failed).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    expect(String(failed)).toContain(new URL(url).host)
    expect(String(failed)).toContain('ECONNREFUSED')
    await expect(publishTick(outbox, 1)).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE' })
    await startService(SERVER)
    await outbox.start()
    await publishTick(outbox, 2)
    await world.drained()
    expect(world.numbers).toEqual([2])
  })
})

describe('a server that becomes read-only', () => {
  it('[37] under load says so, and is used again when it is over; nothing is lost', {
    timeout: 60_000,
  }, async () => {
    await using world = new PostgresWorld(url)
    const outbox = world.listen(world.outbox({ laneLeaseMs: 60_000, laneRenewMs: 300, hotLeaseMs: 2_000 }))
    await outbox.start()
    const traffic = await startTraffic(world, outbox)
    await traffic.commits(80)
    const before = traffic.failures
    await world.rows('ALTER SYSTEM SET default_transaction_read_only = on')
    await world.rows('SELECT pg_reload_conf()')
    await world.until(() => traffic.failures > before + 8)
    await expect(publishTick(outbox, 1_000_000)).rejects.toMatchObject({
      code: 'POSTHASTE_STORE_READ_ONLY',
      transient: true,
    })
    // What ends meanwhile cannot be written either, and is kept.
    await world.until(() => world.log.some(({ error }) => error.includes('is read-only')))
    await world.rows('ALTER SYSTEM RESET default_transaction_read_only')
    await world.rows('SELECT pg_reload_conf()')
    await traffic.commits(80)
    await traffic.stop()
    expect(await judge(world, traffic)).toEqual({ ...WELL, duplicates: 0 })
  })
})

describe('a disk that is full', () => {
  it('[52] refuses what does not fit, says so, and is used again when there is room', {
    timeout: 60_000,
  }, async () => {
    await using world = new PostgresWorld(url)
    const disk = await createSmallDisk(world)
    const outbox = world.listen(world.outbox({ url: disk.url, laneLeaseMs: 60_000, hotLeaseMs: 2_000 }))
    await outbox.start()
    const wide = 'x'.repeat(4_000)
    let stored = 0
    const publishWide = async (): Promise<void> => {
      await outbox.transaction((tx) => outbox.publish(tx, { ...tick(stored), headers: { wide } }))
      stored += 1
    }
    for (let n = 0; n < 50; n += 1) await publishWide()
    await disk.fill()
    let refused: unknown = null
    for (let n = 0; n < 2_000 && refused === null; n += 1) {
      refused = await publishWide().then(
        () => null,
        (error: unknown) => error,
      )
    }
    expect(refused).toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    expect(String(refused)).toContain('no room left')
    await disk.free()
    for (let n = 0; n < 50; n += 1) await publishWide()
    await world.drained()
    expect(world.numbers.sort((a, b) => a - b)).toEqual(Array.from({ length: stored }, (_, n) => n))
    await outbox.close()
    await world.rows('DROP SCHEMA {schema} CASCADE')
    await disk.remove()
  })
})

describe('a queue of notifications that is full', () => {
  /** Somebody listens and never ends his transaction; from then on nothing leaves the queue. */
  const fillQueue = async (world: PostgresWorld): Promise<() => void> => {
    const stuck = await world.hand.connect()
    await stuck.query('LISTEN elsewhere')
    await stuck.query('BEGIN')
    await stuck.query('SELECT 1')
    const fill = (): Promise<unknown> => world.rows("SELECT pg_notify('elsewhere', repeat('x', 7900))")
    for (let n = 0; n < 1_000; n += 1) {
      const error = await fill().then(
        () => null,
        (reason: unknown) => reason as { readonly code: string },
      )
      if (error?.code === '54000') return () => stuck.release(true)
      if (error !== null) throw error
    }
    throw new Error('the queue has no end')
  }

  it('[34] fails no commit, and events are found by polling', async () => {
    await using world = new PostgresWorld(url)
    await world.rows('ALTER SYSTEM SET max_notify_queue_pages = 64')
    await killService(SERVER)
    await startService(SERVER)
    const worker = world.listen(world.outbox())
    const publisher = world.outbox({ serve: [] })
    await worker.start()
    await publisher.start()
    const release = await fillQueue(world)
    for (let n = 0; n < 10; n += 1) await publishTick(publisher, n, `k${n % 3}`)
    await world.until(() => world.log.some(({ error }) => error.includes('NOTIFY queue')))
    await world.drained()
    expect(world.numbers.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    release()
    await world.rows('ALTER SYSTEM RESET max_notify_queue_pages')
  })
})
