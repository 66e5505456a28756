/** Commands that explain: what is promised, what can happen, and a shop to watch. */
import { describe, expect, it } from 'vitest'
import { createFolder, createShop } from './cli.ts'

describe('learning', { timeout: 240_000 }, () => {
  it('says what each route promises', async () => {
    const shop = await createShop()
    const { stdout } = await shop.run(['guarantees'])
    expect(stdout).toContain('shop → mailer')
    const { json } = await shop.run(['guarantees', '--json'])
    expect(json.routes).toHaveLength(2)
    expect(json.routes[0].promises.join(' ')).toContain('At least once: up to 10 attempts')
    expect(json.routes[0].promises.join(' ')).not.toContain('000 ms')
  })

  it('says that promises follow from a configuration where only an address is given', async () => {
    const folder = createFolder()
    const env = { DATABASE_URL: 'sqlite:shop.db' }
    for (const ended of [
      await folder.run(['guarantees', '--url', 'sqlite:shop.db', '--json']),
      await folder.run(['guarantees', '--json'], { env }),
    ]) {
      expect(ended.code).toBe(3)
      expect(ended.json).toMatchObject({
        ok: false,
        error: {
          code: 'POSTHASTE_INVALID_CONFIG',
          message: expect.stringMatching(
            /^guarantees needs a configuration: .*--config, or run posthaste init/,
          ),
        },
      })
    }
    // Here one says that there is none.
    folder.write(
      'posthaste.config.mjs',
      `import { createOutbox } from 'posthaste'
import { sqliteStore } from 'posthaste/sqlite'
export default { outboxes: { shop: createOutbox({ store: sqliteStore({ file: ':memory:' }) }) } }`,
    )
    expect(await folder.run(['guarantees'])).toMatchObject({
      code: 0,
      stdout: 'no destination is declared\n',
    })
  })

  it('prints the catalogue, as AsyncAPI too', async () => {
    const folder = createFolder()
    folder.write(
      'posthaste.config.mjs',
      `import { createOutbox, defineEvent, typeOnly } from 'posthaste'
import { sqliteStore } from 'posthaste/sqlite'
const jsonSchema = { output: () => ({ type: 'object', required: ['id'] }), input: () => ({}) }
const schema = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }), jsonSchema } }
export const placed = defineEvent('order.placed', { schema, aggregate: 'order' })
export const paid = defineEvent('order.paid', { schema: typeOnly(), version: 2, upcast: { 1: (old) => old } })
const outbox = createOutbox({
  store: sqliteStore({ file: ':memory:' }),
  destinations: { search: { events: [placed] }, audit: { events: ['order.*'] } },
})
export default { outboxes: { shop: outbox }, events: { placed, paid } }`,
    )
    expect((await folder.run(['catalog', '--json'])).json.events).toMatchObject([
      { type: 'order.paid', version: 2, schema: 'type only', destinations: ['audit'] },
      { type: 'order.placed', aggregate: 'order', schema: 'checked', destinations: ['search', 'audit'] },
    ])
    const document = JSON.parse((await folder.run(['catalog', '--asyncapi'])).stdout)
    expect(document).toMatchObject({
      asyncapi: '3.0.0',
      channels: { 'shop-search': { address: 'search' } },
      components: { messages: { 'order.placed.v1': { payload: { type: 'object', required: ['id'] } } } },
    })
    expect(document.operations['send-shop-audit'].messages).toHaveLength(2)
  })

  it('names the command that was called when the demo is asked for too little', async () => {
    const { code, stderr } = await createFolder().run(['demo', '--events', '10'])
    expect(code).toBe(2)
    expect(stderr).toContain('See posthaste help demo')
    const { json } = await createFolder().run(['demo', '--events', '10', '--json'])
    expect(json).toEqual({
      ok: false,
      error: {
        code: 'USAGE',
        message: '--events must be a whole number from 300 to 200000, not "10"',
        exitCode: 2,
      },
    })
  })

  it('shows a shop that breaks and loses nothing', async () => {
    const { code, json } = await createFolder().run(['demo', '--events', '300', '--json'])
    expect(code).toBe(0)
    expect(json).toMatchObject({ ok: true, lost: 0, duplicates: 0 })
  })
})
