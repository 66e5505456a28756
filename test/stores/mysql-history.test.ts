/** What is kept of finished deliveries: how many there were in each minute. */
import { afterEach, describe, expect, it } from 'vitest'
import { createWorld, rowsOf, SERVERS, type World } from './mysql-words.ts'

let world: World

afterEach(() => world.close())

const finish = async (count: number): Promise<void> => {
  const { t } = world
  const me = await t.worker()
  for (const one of await t.publishMany(count)) await t.done(one, me.right)
}

/** As if everything so far had been a minute earlier. */
const aMinuteLater = (): Promise<unknown> =>
  world.hand.query(`UPDATE ${world.table('finished')} SET finished_at = finished_at - INTERVAL 1 MINUTE;
UPDATE ${world.table('stats')} SET minute = minute - 1 WHERE minute > 0`)

const doneInMinutes = async (): Promise<number> => {
  const [row] = await rowsOf(
    world.hand,
    `SELECT SUM(done) AS done FROM ${world.table('stats')} WHERE minute > 0`,
  )
  return Number(row?.done)
}

describe.each(SERVERS)('%s', (server) => {
  it('what finishes after a minute was recorded is counted in that minute all the same', async () => {
    world = await createWorld(server)
    const { t } = world
    await t.declare('alpha')
    await finish(1)
    await t.store.maintenance.recordStatistics(100)
    await finish(2)
    await aMinuteLater()
    await finish(1)
    await t.store.maintenance.recordStatistics(100)
    expect(await doneInMinutes()).toBe(4)
    await world.hand.query(`DELETE FROM ${world.table('finished')}`)
    await t.store.maintenance.recordStatistics(100)
    expect(await doneInMinutes()).toBe(4)
  })
})
