/** A settle moves a row by two statements. Whoever comes between them must not change what the first one has judged. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Published, tokenRight } from '../../src/testing/suites/store-fixture.ts'
import { createWorld, hex, rowsOf, SERVERS, untilWaiting, type World } from './mysql-words.ts'

let world: World

/** A delivery without a key whose hot claim has run out, so that its publisher and the lane's owner both act on it. */
const publishOverdue = async (token: string): Promise<Published> => {
  const published = await world.t.publish({ token })
  await world.hand.query(
    `UPDATE ${world.table('deliveries')} SET available_at = created_at WHERE id = ${hex(published.delivery.id)}`,
  )
  return published
}

/** Whoever adds to the running totals waits until the transaction ends, and by then it has copied its rows. */
const lockTotals = () => {
  const rows = Array.from({ length: 16 }, (_, shard) => `(${-shard}, 'alpha', 0, 0, 0, 0, 0)`)
  return world.hand.query(
    `START TRANSACTION; INSERT INTO ${world.table('stats')} (minute, destination, done, discarded, failed, pending, dead) VALUES ${rows.join(', ')}`,
  )
}

/** Both answers, of a settle that had copied its row when `other` began. */
const inBetween = async <A, B>(settle: () => Promise<A>, other: () => Promise<B>): Promise<[A, B]> => {
  await lockTotals()
  const settled = settle()
  await untilWaiting(world)
  let isOver = false
  const answered = other().finally(() => {
    isOver = true
  })
  await untilWaiting(world, 2, () => isOver)
  await world.hand.query('ROLLBACK')
  return Promise.all([settled, answered])
}

const tablesWith = async ({ delivery }: Published): Promise<string[]> => {
  const found: string[] = []
  for (const name of ['deliveries', 'finished']) {
    const sql = `SELECT 1 FROM ${world.table(name)} WHERE id = ${hex(delivery.id)}`
    if ((await rowsOf(world.hand, sql)).length > 0) found.push(name)
  }
  return found
}

describe.each(SERVERS)('%s: a delivery is either moved or somebody else’s', (server) => {
  beforeEach(async () => {
    world = await createWorld(server)
  })

  afterEach(() => world.close())

  it('when it becomes a suspect while its publisher settles it by its token', async () => {
    const { t } = world
    const [token, owner] = [t.newId(), await t.worker()]
    const published = await publishOverdue(token)
    const { id } = published.delivery
    const [{ lost }, suspected] = await inBetween(
      () => t.done(published, tokenRight(token)),
      () => t.store.queue.suspect({ workerId: owner.id, ids: [id], token: t.newId(), spendFrom: 3 }),
    )
    expect(lost).toEqual(suspected.map((row) => row.id))
    expect(await tablesWith(published)).toEqual([lost.length === 0 ? 'finished' : 'deliveries'])
  })

  it('when its publisher buries it while the owner of its lane settles it', async () => {
    const { t } = world
    const [token, owner] = [t.newId(), await t.worker()]
    const published = await publishOverdue(token)
    const [{ lost }, { lost: lostToo }] = await inBetween(
      () => t.done(published, owner.right),
      () => t.dead(published, tokenRight(token)),
    )
    expect([...lost, ...lostToo]).toEqual([published.delivery.id])
    expect(await tablesWith(published)).toEqual([lost.length === 0 ? 'finished' : 'deliveries'])
  })

  it('when the owner of its lane suspects it together with others that are settled at once', async () => {
    const { t } = world
    const owner = await t.worker()
    const tokens = Array.from({ length: 10 }, () => t.newId())
    const published: Published[] = []
    for (const token of tokens) published.push(await publishOverdue(token))
    const ids = published.map(({ delivery }) => delivery.id)
    const [{ lost }, suspected] = await inBetween(
      () =>
        t.settle(
          published.map((each, i) => t.settlement(each, tokenRight(tokens[i] ?? ''), { kind: 'done' })),
        ),
      () => t.store.queue.suspect({ workerId: owner.id, ids, token: t.newId(), spendFrom: 3 }),
    )
    expect([...lost].sort()).toEqual(suspected.map((row) => row.id).sort())
    for (const each of published) expect(await tablesWith(each)).toHaveLength(1)
  })
  it('while others use the right of the same worker, for which nobody waits', async () => {
    const { t } = world
    const owner = await t.worker()
    const published = await t.publish()
    await world.hand.query(
      `START TRANSACTION; SELECT 1 FROM ${world.table('workers')} WHERE id = '${owner.id}' LOCK IN SHARE MODE`,
    )
    expect((await t.done(published, owner.right)).lost).toEqual([])
    await world.hand.query('COMMIT')
  })
})
