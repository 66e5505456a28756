/** Settings that are said once for several outboxes, and name destinations that not all of them have. */
import { describe, expect, it } from 'vitest'
import { createShop, SHOP, type Shop } from './cli.ts'

const STOCK = SHOP.replace('shop.db', 'stock.db').replace("mailer: { events: ['order.*'] }, ", '')

const createBoth = async (settings: object = {}): Promise<Shop> => {
  const shop = await createShop()
  shop.write(
    'stock.mjs',
    `${STOCK.slice(0, STOCK.indexOf("outbox.on('mailer'"))}outbox.on('audit', '*', () => {})`,
  )
  shop.write(
    'posthaste.config.mjs',
    `import { outbox as shop } from './shop.mjs'
import { outbox as stock } from './stock.mjs'
export default { outboxes: { shop, stock }, ...${JSON.stringify(settings)} }`,
  )
  return shop
}

/** Of both outboxes, by the key. */
const valuesOf = async (shop: Shop, ...args: readonly string[]) => {
  const { json, stderr } = await shop.run(['config', '--json', ...args])
  expect(stderr).toBe('')
  type Setting = { readonly key: string; readonly value: unknown }
  return json.outboxes.map(({ settings }: { settings: readonly Setting[] }) =>
    Object.fromEntries(settings.map(({ key, value }) => [key, value])),
  )
}

const MAILER = 'destinations.mailer.concurrency'

describe('a destination that one of several outboxes has', { timeout: 120_000 }, () => {
  it('is set by a flag and by the file for all, where it is', async () => {
    const byFlag = await valuesOf(await createBoth(), '--set', 'mailer.concurrency=2')
    expect(byFlag.map((values: object) => MAILER in values)).toEqual([true, false])
    expect(byFlag[0]).toMatchObject({ [MAILER]: 2 })
    const file = { outbox: { destinations: { mailer: { concurrency: 3 } } } }
    expect((await valuesOf(await createBoth(file)))[0]).toMatchObject({ [MAILER]: 3 })
  })

  it('is served alone', async () => {
    const shop = await createBoth()
    expect(await valuesOf(shop, '--set', 'serve=mailer')).toMatchObject([
      { serve: ['mailer'] },
      { serve: [] },
    ])
    await shop.publish(1)
    const pass = await shop.run([
      'worker',
      '--once',
      '--destinations',
      'mailer',
      '--log-level',
      'silent',
      '--json',
    ])
    expect(pass).toMatchObject({ code: 0, json: { done: 1 } })
  })

  it('is set by the file for all also where another one is chosen', async () => {
    const shop = await createBoth({ outbox: { destinations: { mailer: { concurrency: 3 } } } })
    const [stock] = await valuesOf(shop, '--outbox', 'stock')
    expect(MAILER in stock).toBe(false)
    const [chosen] = await valuesOf(shop, '--outbox', 'shop')
    expect(chosen).toMatchObject({ [MAILER]: 3 })
  })

  it('is refused when none of them has it, or that which is meant', async () => {
    const shop = await createBoth()
    const nobody = await shop.run(['config', '--set', 'mailr.concurrency=2'])
    expect(nobody.code).toBe(3)
    expect(nobody.stderr).toContain(
      'destinations.mailr: no outbox has a destination "mailr"; there are: mailer, audit (--set mailr.concurrency)',
    )
    expect(await shop.run(['worker', '--once', '--destinations', 'mailer,mailr'])).toMatchObject({ code: 5 })
    const meant = await shop.run(['config', '--outbox', 'stock', '--set', 'mailer.concurrency=2'])
    expect(meant.code).toBe(3)
    expect(meant.stderr).toContain('outbox "stock" has no destination "mailer"; there are: audit')
    shop.write(
      'posthaste.config.json',
      JSON.stringify({
        outboxes: {
          shop: { module: './shop.mjs' },
          stock: { module: './stock.mjs', destinations: { mailer: { concurrency: 2 } } },
        },
      }),
    )
    const own = await shop.run(['config', '--config', 'posthaste.config.json'])
    expect(own.code).toBe(3)
    expect(own.stderr).toContain(
      'outboxes.stock.destinations.mailer: outbox "stock" has no destination "mailer"',
    )
  })
})
