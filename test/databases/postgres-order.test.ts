/** The order of a key, and transactions that take long. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newPostgresUrl } from '../stores/servers.ts'
import { type PgOutbox, PostgresWorld, publishTick, tick } from './postgres-world.ts'

let world: PostgresWorld
let worker: PgOutbox

beforeEach(async () => {
  world = new PostgresWorld(newPostgresUrl())
  worker = world.listen(world.outbox())
  await worker.start()
})

afterEach(() => world[Symbol.asyncDispose]())

/** A process that only publishes. */
const publisher = async (keyOrder: 'locked' | 'visible'): Promise<PgOutbox> => {
  const outbox = world.outbox({ keyOrder, serve: [] })
  await outbox.start()
  return outbox
}

const waitsForLock = async (): Promise<boolean> => {
  const waiting = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND pid IN (SELECT pid FROM pg_stat_activity WHERE query LIKE '%{schema}%')`
  return (await world.rows(waiting)).length > 0
}

describe('keyOrder locked', () => {
  it('[30] writers of one key in two processes take turns until commit, so id order is commit order', async () => {
    const [one, two] = [await publisher('locked'), await publisher('locked')]
    await using first = await one.begin()
    await first.publish(tick(1, 'k'))
    const second = publishTick(two, 2, 'k')
    await world.until(waitsForLock)
    // Another key does not wait.
    await publishTick(two, 3, 'other')
    await world.until(() => world.numbers.includes(3))
    expect(world.numbers).toEqual([3])
    await first.commit()
    await second
    await world.drained()
    expect(world.numbers).toEqual([3, 1, 2])
  })

  it('[30] a writer that rolls back lets the next one go', async () => {
    const [one, two] = [await publisher('locked'), await publisher('locked')]
    const first = await one.begin()
    await first.publish(tick(1, 'k'))
    const second = publishTick(two, 2, 'k')
    await world.until(waitsForLock)
    await first.rollback()
    await second
    await world.drained()
    expect(world.numbers).toEqual([2])
  })

  it('[30] several keys in opposite order in two processes do not deadlock', async () => {
    const [one, two] = [await publisher('locked'), await publisher('locked')]
    const keys = ['a', 'b', 'c', 'd']
    const rounds = Array.from({ length: 15 }, (_, round) => round)
    const write = async (outbox: PgOutbox, offset: number, order: readonly string[]): Promise<void> => {
      for (const round of rounds) {
        const drafts = order.map((key, i) => tick(offset + round * keys.length + i, key))
        await outbox.transaction((tx) => outbox.publishMany(tx, drafts))
      }
    }
    await Promise.all([write(one, 0, keys), write(two, 1_000, keys.toReversed())])
    await world.drained()
    expect(new Set(world.numbers).size).toBe(2 * rounds.length * keys.length)
    for (const key of keys) {
      const heard = world.heard.filter((one) => one.key === key).map(({ n }) => n)
      const stored = await world.rows<{ n: number }>(
        "SELECT (payload ->> 'n')::int AS n FROM {schema}.events WHERE key = $1 ORDER BY seq",
        [key],
      )
      expect(heard).toEqual(stored.map(({ n }) => n))
    }
  })
})

describe('a transaction that takes long', () => {
  it('[31] and writes something else does not hold up deliveries, and its own comes when it commits', async () => {
    await world.rows('CREATE TABLE {schema}.stock (n int)')
    const outbox = await publisher('visible')
    const unrelated = await world.hand.connect()
    await unrelated.query(`BEGIN; INSERT INTO ${world.schema}.stock VALUES (1)`)
    await using slow = await outbox.begin()
    await slow.publish(tick(1, 'slow'))
    for (let n = 2; n < 40; n += 1) await publishTick(outbox, n, n % 2 === 0 ? `k${n % 3}` : undefined)
    await world.until(() => world.numbers.length === 38)
    expect(world.numbers).not.toContain(1)
    await slow.commit()
    await world.until(() => world.numbers.includes(1))
    await unrelated.query('ROLLBACK')
    unrelated.release()
    await world.drained()
    expect(world.numbers).toHaveLength(39)
  })
})
