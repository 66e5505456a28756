/** An act touches what was named, all of it and nothing else; a word that would be ignored is refused. */
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { COMMANDS } from '../../src/cli/commands/index.ts'
import { parse } from '../../src/cli/parse.ts'
import { createShopWithDead, SHOP } from './cli.ts'

describe('the database that is meant', () => {
  it('is that of --url, also where the environment names a configuration', async () => {
    const shop = await createShopWithDead(1)
    const env = { POSTHASTE_CONFIG: 'posthaste.config.mjs' }
    await shop.run(['migrate', '--url', 'sqlite:other.db'])
    const { json } = await shop.run(['dead', 'list', '--url', 'sqlite:other.db', '--json'], { env })
    expect(json).toMatchObject({ ok: true, dead: 0 })
  })

  it.each([
    [['--url', 'sqlite:other.db', '--config', 'posthaste.config.mjs'], 3, 'outboxes.shop is code'],
    [['--prefix', 'other_'], 2, '--prefix needs --url'],
    [['--schema', 'other'], 2, '--schema needs --url'],
    [['--table', 'other'], 2, '--table needs --url'],
    [['--url', 'sqlite:shop.db', '--schema', 'other'], 2, '--schema is for PostgreSQL'],
    [['--url', 'mysql://h/shop', '--schema', 'other'], 2, '--schema is for PostgreSQL'],
  ])('is not guessed: %j is refused', async (place, code, message) => {
    const shop = await createShopWithDead(1)
    const ended = await shop.run(['dead', 'discard', '--all', '--reason', 'x', ...place])
    expect(ended).toMatchObject({ code })
    expect(ended.stderr).toContain(message)
    expect((await shop.run(['dead', 'list', '--json'])).json).toMatchObject({ dead: 1 })
  })
})

describe('the deliveries that are meant', () => {
  it('are said once: a flag that is given twice is refused', () => {
    const twice = ['dead', 'discard', '--type', 'a', '--reason', 'x', '--type', 'b']
    expect(() => parse(twice, COMMANDS)).toThrow('--type is given twice')
    expect(() => parse(['status', '--url', 'sqlite:a', '--dsn', 'sqlite:b'], COMMANDS)).toThrow('given twice')
    expect(parse(['backfill', 'x', '--type', 'a', '--type', 'b'], COMMANDS).values.type).toEqual(['a', 'b'])
  })

  it('are narrowed by every flag beside an id', async () => {
    const shop = await createShopWithDead(1)
    const [id = ''] = await shop.publish(1)
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    for (const flag of ['--type', '--key', '--tenant', '--limit']) {
      const refused = await shop.run(['replay', id, flag, '5'])
      expect(refused).toMatchObject({ code: 2 })
      expect(refused.stderr).toContain('name ids, or a filter')
    }
    expect((await shop.run(['replay', id, '--destination', 'audit', '--json'])).json).toMatchObject({
      replayed: 1,
    })
  })

  it('are those that can be replayed, when others were replayed before', async () => {
    const shop = await createShopWithDead(2)
    for (let times = 0; times < 3; times += 1) {
      const replay = ['replay', '--destination', 'audit', '--limit', '1', '--json']
      expect((await shop.run(replay)).json).toMatchObject({ matched: 1, replayed: 1 })
      await shop.run(['worker', '--once', '--log-level', 'silent'])
    }
  })

  it('are a group wherever it is among the dead', async () => {
    const shop = await createShopWithDead(1)
    // Many that died of something else before, as a night of a broken release leaves them.
    const db = new Database(join(shop.path, 'shop.db'))
    const columns = db.prepare("SELECT name FROM pragma_table_info('outbox_deliveries')").all() as {
      name: string
    }[]
    const own: Readonly<Record<string, string>> = {
      id: 'randomblob(16)',
      run: 'n.value + 1',
      seq: 'd.seq - n.value - 1',
      key: "'crowd' || n.value",
    }
    const values = columns.map(({ name }) => own[name] ?? `d.${name}`)
    db.exec(`WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 10000)
INSERT INTO outbox_deliveries (${columns.map(({ name }) => name).join()}) SELECT ${values.join()} FROM outbox_deliveries AS d, n WHERE d.status = 3`)
    db.close()
    const { json } = await shop.run(['dead', 'list', '--json'])
    expect(json).toMatchObject({ dead: 10_000, more: true })
    const { fingerprint } = json.groups.find(({ count }: { count: number }) => count === 1)
    const redriven = await shop.run(['dead', 'redrive', '--group', fingerprint, '--json'])
    expect(redriven.json).toMatchObject({ matched: 1, redriven: 1 })
  })
})

describe('a look', () => {
  it.each([
    ['--interval', '1s'],
    ['--times', '3'],
  ])('is one without --watch: %s is refused', async (flag, value) => {
    const { code, stderr } = await (await createShopWithDead(0)).run(['status', flag, value])
    expect({ code, stderr }).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(`${flag} needs --watch`),
    })
  })
})

describe('a page', () => {
  it('of several outboxes goes on in the one that its cursor is of', async () => {
    const shop = await createShopWithDead(1)
    shop.write('stock.mjs', SHOP.replace('shop.db', 'stock.db'))
    shop.write(
      'both.mjs',
      `import { outbox as shop } from './shop.mjs'
import { outbox as stock } from './stock.mjs'
export default { outboxes: { shop, stock } }`,
    )
    const both = ['--config', 'both.mjs', '--json']
    await shop.run(['migrate', ...both])
    const { json } = await shop.run(['events', 'list', '--limit', '1', ...both])
    expect(json.next).toEqual({ shop: expect.any(String), stock: null })
    const more = ['events', 'list', '--after', json.next.shop, ...both]
    expect(await shop.run(more)).toMatchObject({ code: 2 })
    expect((await shop.run([...more, '--outbox', 'shop'])).json.deliveries).toHaveLength(1)
  })
})

describe('Ctrl-C', () => {
  it('in a back-fill is told by the exit code', async () => {
    const shop = await createShopWithDead(30)
    shop.write(
      'shop.mjs',
      SHOP.replace('audit: {', "search: { events: ['*'] }, audit: {").concat(
        "outbox.on('search', '*', () => {})",
      ),
    )
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    const { child, ended } = shop.start([
      'backfill',
      'search',
      '--since',
      '1h',
      '--per-second',
      '1',
      '--limit',
      '25',
      '--json',
    ])
    const added = async (): Promise<number> => {
      const { json } = await shop.run(['events', 'list', '--destination', 'search', '--json'])
      return json.deliveries.length
    }
    while ((await added()) === 0);
    child.kill('SIGINT')
    expect(await ended).toMatchObject({
      code: 130,
      json: { ok: false, complete: false, error: { code: 'INTERRUPTED', exitCode: 130 } },
    })
  })
})
