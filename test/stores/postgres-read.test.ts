/** What a read says of rows that are not as most are: each column alone, because all of them travel together. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { StoredDelivery } from '../../src/core/spi/index.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

const MINUTE_MS = 60_000

const ago = (minutes: number): string => `now() - interval '${minutes} minutes'`

/** Stored so long ago. */
const AGE = 10

let world: World

beforeAll(async () => {
  world = await createWorld(newPostgresUrl())
})

beforeEach(async () => {
  for (const table of ['events', 'deliveries']) await world.hand.query(`DELETE FROM ${world.schema}.${table}`)
})

afterAll(() => world.close())

/** A row with such columns, as both ways of reading tell it; retries are not read by id. */
const readWith = async (columns: string): Promise<readonly StoredDelivery[]> => {
  const { t, hand, schema } = world
  const { delivery } = await t.publish({ key: 'k' })
  await hand.query(`UPDATE ${schema}.events SET created_at = ${ago(AGE)}`)
  // The very same time, as a publish leaves it.
  await hand.query(
    `UPDATE ${schema}.deliveries SET created_at = e.created_at, available_at = e.created_at FROM ${schema}.events AS e`,
  )
  if (columns !== '') await hand.query(`UPDATE ${schema}.deliveries SET ${columns}`)
  const { due, fresh } = await t.read()
  return [...due, ...fresh, ...(await t.store.queue.readByIds('alpha', [delivery.id]))]
}

const minutesOf = ({ dueForMs = Number.NaN }: StoredDelivery): number => Math.round(dueForMs / MINUTE_MS)

const USUAL = { run: 1, attempts: 0, suspicions: 0, token: null, holdsKey: false, status: 'pending' }

describe('a read tells', () => {
  it.each([
    ['nothing in particular', '', {}],
    ['the run', 'run = 2', { run: 2 }],
    ['attempts', 'attempts = 3', { attempts: 3 }],
    ['suspicions', 'suspicions = 4', { suspicions: 4 }],
    ['the token of a claim that ran out', `token = 'a"\\é'`, { token: 'a"\\é' }],
    ['that the row holds its key', 'holds_key = true', { holdsKey: true }],
  ])('%s', async (_, columns, told) => {
    const rows = await readWith(columns)
    expect(rows).toHaveLength(2)
    for (const row of rows) {
      expect(row).toMatchObject({ ...USUAL, ...told, problem: null })
      expect(minutesOf(row)).toBe(AGE)
    }
  })

  it('all of a retry', async () => {
    const rows = await readWith(`status = 2, run = 2, attempts = 3, holds_key = true`)
    expect(rows).toHaveLength(1)
    expect(rows[0]).toMatchObject({ ...USUAL, run: 2, attempts: 3, holdsKey: true, status: 'retry' })
  })
})

describe('a row could be sent', () => {
  it.each([
    ['since it was due', `available_at = ${ago(3)}`, 3],
    ['since its commit, after a claim that ran out', `token = 't', available_at = ${ago(3)}`, AGE],
    // As for a destination that is younger than the event.
    ['since it was added for its event', `created_at = ${ago(2)}, available_at = ${ago(2)}`, 2],
    ['since then, after a claim', `token = 't', created_at = ${ago(2)}`, 2],
    ['since then, though its event is missing', 'event_id = gen_random_uuid()', AGE],
    ['as a retry, since that was due', `status = 2, available_at = ${ago(3)}`, 3],
    [
      'as a retry under suspicion, too',
      `status = 2, available_at = ${ago(3)}, token = 't', suspicions = 1`,
      3,
    ],
  ])('%s', async (_, columns, minutes) => {
    const told = (await readWith(columns)).map(minutesOf)
    expect(told).toEqual(columns.startsWith('status = 2') ? [minutes] : [minutes, minutes])
  })

  it('since its event was stored, though that cannot be decoded', async () => {
    const { hand, schema } = world
    await readWith('')
    await hand.query(`UPDATE ${schema}.events SET headers = '["broken"]'`)
    const { fresh } = await world.t.read()
    expect(fresh.map((row) => [row.event, minutesOf(row)])).toEqual([[null, AGE]])
  })
})
