/** Passwords that are hard to see as such, in every place where the program repeats what it was told. */
import { describe, expect, it } from 'vitest'
import { createFolder, createShop } from './cli.ts'

const ADDRESSES = [
  'postgres://shop:can/ary-1@127.0.0.1:1/shop',
  'postgres://shop:can ary-1@127.0.0.1:1/shop',
  'postgres://shop:can"ary-1@127.0.0.1:1/shop',
  "postgres://shop:can'ary-1@127.0.0.1:1/shop",
  'postgres://shop:can#ary-1@127.0.0.1:1/shop',
  'mysql://shop:can@ary-1@127.0.0.1:1/shop',
  'mysql://shop:ary-1@127.0.0.1:1/shop?connectTimeout=x',
  'oracle://shop:ary-1@127.0.0.1:1/shop',
  'postgres//shop:ary-1@127.0.0.1:1/shop',
]

describe('the password of an address', () => {
  it.each(ADDRESSES)('is not shown: %s', async (url) => {
    const folder = createFolder()
    const runs = [
      ['config'],
      ['config', '--json'],
      ['status', '--json'],
      ['doctor', '--json'],
      ['worker', '--once'],
    ]
    const ended = await Promise.all(runs.map((args) => folder.run(args, { env: { DATABASE_URL: url } })))
    for (const [index, { stdout, stderr }] of ended.entries())
      expect(`${stdout}${stderr}`, String(runs[index])).not.toMatch(/can.?ary|ary-1/)
  })

  it('is not shown by a configuration that cannot be read', async () => {
    for (const [name, text] of [
      ['posthaste.config.json', '{"url":postgres://u:canary@h}'],
      ['posthaste.config.toml', '[outboxes.shop]\ndb_password = "canary"\nurl = "postgres://u:ca/nary@h\n'],
      ['posthaste.config.mjs', 'throw new Error("clientSecret: canary, DB_PASSWORD=canary")'],
    ] as const) {
      const folder = createFolder()
      folder.write(name, text)
      const { code, stdout, stderr } = await folder.run(['status', '--json'])
      expect({ name, code }).toEqual({ name, code: 3 })
      expect(`${stdout}${stderr}`).not.toMatch(/ca\/?nary/)
    }
  })
})

describe('the log of a worker', () => {
  it('stays JSON where something in it is masked, and has the lines of its level', async () => {
    const shop = await createShop()
    shop.write(
      'posthaste.config.mjs',
      `import { outbox } from './shop.mjs'
outbox.on('audit', '*', () => { throw new Error('refused: password: "canary", db_password = canary') })
export default { outboxes: { shop: outbox } }`,
    )
    await shop.publish(1)
    const { stderr } = await shop.run(['worker', '--once', '--log-level', 'debug'])
    expect(stderr).not.toContain('canary')
    const lines = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { level: string })
    expect(new Set(lines.map(({ level }) => level))).toContain('debug')
  })
})
