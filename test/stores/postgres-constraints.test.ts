/** What PostgreSQL itself refuses: rows that no read would ever find. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl())
  await world.hand.query(`SELECT ${world.schema}.publish_event('a', '1')`)
})

afterEach(() => world.close())

describe('PostgreSQL refuses', () => {
  it.each([
    ['a lane that does not exist', 'deliveries', 'lane = 64'],
    ['a lane below the first', 'deliveries', 'lane = -1'],
    ['the status of a finished row', 'deliveries', 'status = 1'],
    ['a status that does not exist', 'deliveries', 'status = 7'],
  ])('%s', async (_, table, change) => {
    await expect(world.hand.query(`UPDATE ${world.schema}.${table} SET ${change}`)).rejects.toMatchObject({
      code: '23514',
    })
  })

  it('nothing else of the kind', async () => {
    await world.hand.query(
      `UPDATE ${world.schema}.deliveries SET status = 6, key = 'k', holds_key = true, lane = 63`,
    )
  })
})

it('ids that do not begin with their time are marked, whichever statement writes them', async () => {
  const marked = async (): Promise<unknown> =>
    (await world.hand.query(`SELECT count(*)::int AS n FROM ${world.schema}.events WHERE NOT timed_id`))
      .rows[0].n
  expect(await marked()).toBe(0)
  await world.t.publish({ id: '3f2504e0-4f89-41d3-9a0c-0305e82c3301' })
  expect(await marked()).toBe(1)
  await world.t.publish({ id: '3f2504e0-4f89-41d3-9a0c-0305e82c3302', due: { afterMs: 60_000 } })
  expect(await marked()).toBe(2)
  await world.t.publish()
  expect(await marked()).toBe(2)
})
