/** A policy from outside is for all destinations, also for those with one of their own in code. */
import { describe, expect, it } from 'vitest'
import { createShop, SHOP, type Shop } from './cli.ts'

/** Its mailer fails in a way that may pass, and has a policy of its own. */
const createShopWithPolicy = async (): Promise<Shop> => {
  const shop = await createShop()
  const own = "events: ['order.*'], retry: fixed({ delayMs: 3_600_000, maxAttempts: 7 })"
  shop.write(
    'shop.mjs',
    SHOP.replace('createOutbox, PermanentError', 'createOutbox, fixed')
      .replace("events: ['order.*']", own)
      .replace('new PermanentError', 'new Error'),
  )
  return shop
}

describe('a retry policy from outside', () => {
  const env = { POSTHASTE_RETRY_MAX_ATTEMPTS: '1' }

  it('wins over that of a destination', async () => {
    const shop = await createShopWithPolicy()
    await shop.publish(1, 'ada')
    expect(await shop.run(['worker', '--once', '--log-level', 'silent'], { env })).toMatchObject({ code: 0 })
    const { json } = await shop.run(['dead', '--json'])
    expect(json).toMatchObject({ dead: 1, groups: [{ destination: 'mailer' }] })
  })

  it('is what config shows, and without it that of the destination', async () => {
    const shop = await createShopWithPolicy()
    const limits = async (more: Record<string, string>) => {
      const { json } = await shop.run(['config', '--json'], { env: more })
      const all: readonly Record<string, unknown>[] = json.outboxes[0].settings
      return all
        .filter(({ key }) => String(key).endsWith('maxAttempts'))
        .map(({ key, value, from }) => [key, value, from])
    }
    expect(await limits({})).toEqual([
      ['retry.maxAttempts', 10, 'default'],
      ['destinations.mailer.retry.maxAttempts', 7, 'code'],
    ])
    expect(await limits(env)).toEqual([['retry.maxAttempts', 1, 'environment']])
  })
})
