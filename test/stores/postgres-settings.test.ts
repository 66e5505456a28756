/** Settings that a server, a database or a role may have, and that must not change what the store does. */
import { afterEach, describe, expect, it } from 'vitest'
import { createWorld, untilBlocking, untilWaiting, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

let world: World

afterEach(() => world.close())

const worldWith = async (setting: string, value: string): Promise<void> => {
  const url = new URL(newPostgresUrl())
  url.searchParams.set('options', `-c ${setting}=${value.replaceAll(' ', '\\ ')}`)
  world = await createWorld(url.href)
}

describe.each(['repeatable read', 'serializable'])('default_transaction_isolation = %s', (level) => {
  it('what is held while its holder is settled goes on with it', async () => {
    await worldWith('default_transaction_isolation', level)
    const { t } = world
    const me = await t.worker()
    const head = await t.publish({ key: 'k' })
    await t.retry(head, me.right)
    const follower = await t.publish({ key: 'k' })
    await world.hand.query(
      `BEGIN; SELECT 1 FROM ${world.schema}.deliveries WHERE id = '${follower.delivery.id}' FOR UPDATE`,
    )
    const held = t.store.queue.hold(me.id, 'alpha', [follower.delivery.id])
    await untilBlocking(world.url, world.hand)
    const settled = t.done(head, me.right)
    await untilWaiting(world, 2)
    await world.hand.query('COMMIT')
    await held
    await settled
    expect(await t.status(follower)).toBe('pending')
  })

  it('two that end the last two holders at once do not leave the rest waiting', async () => {
    await worldWith('default_transaction_isolation', level)
    const { t } = world
    const me = await t.worker()
    for (let round = 0; round < 10; round++) {
      const key = `k${round}`
      const [first, second] = [await t.publish({ key }), await t.publish({ key })]
      await t.retry(first, me.right)
      await t.retry(second, me.right)
      const last = await t.publish({ key })
      await t.store.queue.hold(me.id, 'alpha', [last.delivery.id])
      await Promise.all([t.done(first, me.right), t.done(second, me.right)])
      expect(await t.status(last)).toBe('pending')
    }
  })
})

it('bytes are bytes, however the server writes them', async () => {
  await worldWith('bytea_output', 'escape')
  const data = Uint8Array.from({ length: 256 }, (_, i) => i)
  const published = await world.t.publish({ data, contentType: 'application/octet-stream' })
  const { event } = await world.t.readOne(published)
  expect(Array.from(event?.data as Uint8Array)).toEqual(Array.from(data))
})
