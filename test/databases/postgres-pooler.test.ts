/** Through PgBouncer in transaction mode, which is restarted. It is a pooler of its own. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { killService, startService } from '../../scripts/services/index.ts'
import { newPostgresUrl } from '../stores/servers.ts'
import { PostgresWorld, publishTick, tick } from './postgres-world.ts'
import { startProxy } from './proxy.ts'
import { codesOf, judge, OUTAGE_CODES, startTraffic, WELL } from './traffic.ts'

const POOLER = 'pgbouncer@faults'
const START_TIMEOUT_MS = 300_000
/** Of the protocol of PostgreSQL: answer what was sent so far. */
const FLUSH = 'H\0\0\0\x04'

let url: string

beforeAll(async () => {
  url = await startService(POOLER)
}, START_TIMEOUT_MS)

afterAll(async () => {
  await killService(POOLER)
  await killService('postgres@faults')
}, START_TIMEOUT_MS)

describe('behind PgBouncer in transaction mode', () => {
  it('[36] a pooler that is killed and comes back, twice: nothing is lost, order is kept', {
    timeout: 60_000,
  }, async () => {
    await using world = new PostgresWorld(url)
    const outbox = world.listen(world.outbox({ laneLeaseMs: 60_000, hotLeaseMs: 2_000 }))
    await outbox.start()
    const traffic = await startTraffic(world, outbox)
    for (let round = 0; round < 2; round += 1) {
      await traffic.commits(80)
      const before = traffic.failures
      await killService(POOLER)
      await world.until(() => traffic.failures > before)
      await startService(POOLER)
    }
    await traffic.commits(80)
    await traffic.stop()
    expect(await judge(world, traffic)).toEqual({ ...WELL, duplicates: 0 })
    expect(OUTAGE_CODES).toEqual(expect.arrayContaining(codesOf(traffic.errors)))
  })

  it('[36] nothing relies on the state of a session: locked keys, savepoints, commits that roll back', async () => {
    await using world = new PostgresWorld(url)
    const outbox = world.listen(world.outbox({ keyOrder: 'locked' }))
    await outbox.start()
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, tick(1, 'k'))
      await outbox
        .transaction(async (inner) => {
          await outbox.publish(inner, tick(2, 'k'))
          throw new Error('no')
        })
        .catch(() => undefined)
    })
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, tick(3, 'k'))
      await tx.query('SELECT 1/0').catch(() => undefined)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    await Promise.all(Array.from({ length: 12 }, (_, n) => publishTick(outbox, 10 + n, 'k')))
    await world.drained()
    expect(world.numbers[0]).toBe(1)
    expect(world.numbers.toSorted((a, b) => a - b)).toEqual([
      1,
      ...Array.from({ length: 12 }, (_, n) => 10 + n),
    ])
    const locks = await world.rows("SELECT FROM pg_locks WHERE locktype = 'advisory'")
    expect(locks).toEqual([])
  })

  it('[36] none is asked to answer BEGIN before its statement: some drop that message, others answer it wrongly', async () => {
    const askedOf = async (server: string): Promise<{ begun: number; flushes: number }> => {
      await using world = new PostgresWorld(server)
      await using proxy = await startProxy(server)
      const asked = { begun: 0, flushes: 0 }
      const outbox = world.outbox({ url: proxy.url, serve: [] })
      await outbox.start()
      await publishTick(outbox, 1)
      proxy.onSent((_, data) => {
        if (data.includes('BEGIN\0')) asked.begun += 1
        if (data.includes(FLUSH)) asked.flushes += 1
      })
      await outbox.transaction((tx) => tx.query('SELECT $1::int', [1]))
      await outbox.close()
      return asked
    }
    expect(await askedOf(url)).toEqual({ begun: 1, flushes: 0 })
    expect(await askedOf(newPostgresUrl())).toEqual({ begun: 1, flushes: 1 })
  })
})
