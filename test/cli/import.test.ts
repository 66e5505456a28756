/** `posthaste import` on SQLite: whole batches or nothing, in order, whatever is in the rows. */
import { watch } from 'node:fs'
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createFolder, createShop, type Ended, type Folder, SHOP } from './cli.ts'

type Db = InstanceType<typeof Database>

const HOME_MADE =
  'CREATE TABLE messages (id INTEGER PRIMARY KEY, name TEXT, body, owner TEXT, happened TEXT, sent TEXT)'

const MAPPING = [
  ...['--source', 'messages', '--id', 'id', '--type', 'name', '--payload', 'body', '--key', 'owner'],
  ...['--created', 'happened', '--pending', 'sent=@null', '--done', 'sent=@now'],
]

interface World {
  readonly folder: Folder
  readonly db: Db
  import(...args: readonly string[]): Promise<Ended>
  /** Type, key, payload and headers of what is in the outbox, in order. */
  events(): readonly Readonly<Record<string, unknown>>[]
}

const createWorld = async (...tables: readonly string[]): Promise<World> => {
  const folder = createFolder()
  const db = new Database(join(folder.path, 'shop.db'))
  onTestFinished(() => void db.close())
  for (const table of tables) db.exec(table)
  await folder.run(['migrate', '--url', 'sqlite:shop.db'])
  return {
    folder,
    db,
    import: (...args) => folder.run(['import', '--url', 'sqlite:shop.db', ...args]),
    events: () =>
      db
        .prepare(
          'SELECT e.*, d.status FROM outbox_events e JOIN outbox_deliveries d ON d.event_id = e.id ORDER BY d.seq',
        )
        .all() as Readonly<Record<string, unknown>>[],
  }
}

const fill = (db: Db, rows: number): void => {
  const insert = db.prepare('INSERT INTO messages (name, body, owner, happened) VALUES (?, ?, ?, ?)')
  db.exec('BEGIN')
  for (let n = 1; n <= rows; n += 1)
    insert.run('order.placed', JSON.stringify({ n }), `k${n % 3}`, '2026-01-02 03:04:05')
  db.exec('COMMIT')
}

const numbers = (events: readonly Readonly<Record<string, unknown>>[]): readonly number[] =>
  events.map(({ payload }) => (JSON.parse(String(payload)) as { readonly n: number }).n)

const left = (db: Db): number =>
  Number((db.prepare('SELECT COUNT(*) AS n FROM messages WHERE sent IS NULL').get() as { n: number }).n)

/** Resolves once it is so; looked at whenever another process has written to the folder. */
const until = (folder: Folder, isSo: () => boolean): Promise<void> =>
  new Promise((resolve) => {
    const watcher = watch(folder.path, () => {
      if (!isSo()) return
      watcher.close()
      resolve()
    })
  })

describe('posthaste import', () => {
  it('shows what it would do, does it in order, and does nothing the second time', async () => {
    const world = await createWorld(HOME_MADE)
    fill(world.db, 25)
    const shown = await world.import(...MAPPING, '--dry-run')
    expect(shown.code).toBe(0)
    expect(shown.stdout).toContain('25 unfinished rows')
    expect(shown.stdout).toContain('2026-01-02T03:04:05.000Z')
    expect(world.events()).toEqual([])
    const first = await world.import(...MAPPING, '--batch', '10', '--json')
    expect(first).toMatchObject({ code: 0, json: { ok: true, moved: 25, batches: 3, unfinished: 0 } })
    expect(numbers(world.events())).toEqual(Array.from({ length: 25 }, (_, index) => index + 1))
    expect(world.events()[0]).toMatchObject({ type: 'order.placed', key: 'k1' })
    expect(JSON.parse(String(world.events()[0]?.headers))).toEqual({ 'imported-id': '1' })
    expect(await world.import(...MAPPING, '--json')).toMatchObject({ code: 0, json: { moved: 0 } })
    expect(world.events()).toHaveLength(25)
  })

  it('moves into the outbox of a configuration, whose worker delivers it', async () => {
    const shop = await createShop()
    expect((await shop.run(['migrate'])).code).toBe(0)
    const db = new Database(join(shop.path, 'shop.db'))
    onTestFinished(() => void db.close())
    db.exec(HOME_MADE)
    const insert = db.prepare("INSERT INTO messages (name, body, owner) VALUES ('order.placed', ?, 'k')")
    for (let n = 0; n < 7; n += 1) insert.run(JSON.stringify({ email: `${n}@example.org` }))
    expect((await shop.run(['import', ...MAPPING, '--delete', '--json'])).code).toBe(2)
    const deleting = MAPPING.filter((word, index) => word !== '--done' && MAPPING[index - 1] !== '--done')
    const moved = await shop.run(['import', ...deleting, '--delete', '--json'])
    expect(moved).toMatchObject({ code: 0, json: { moved: 7 } })
    expect(left(db)).toBe(0)
    const worked = await shop.run(['worker', '--once', '--log-level', 'silent', '--json'])
    // To the mailer, and to the audit.
    expect(worked.json).toMatchObject({ done: 14, dead: 0 })
  })

  it('names types that no destination hears, and moves them only when told so', async () => {
    const shop = await createShop()
    shop.write('shop.mjs', SHOP.replace("audit: { events: ['*'] }", "audit: { events: ['order.*'] }"))
    expect((await shop.run(['migrate'])).code).toBe(0)
    const db = new Database(join(shop.path, 'shop.db'))
    onTestFinished(() => void db.close())
    db.exec(HOME_MADE)
    const insert = db.prepare("INSERT INTO messages (name, body, owner) VALUES (?, '{}', 'k')")
    for (const name of ['order.placed', 'invoice.sent', 'Invoice.sent', 'invoice.sent']) insert.run(name)
    const unheard = [
      { type: 'invoice.sent', rows: 2 },
      { type: 'Invoice.sent', rows: 1 },
    ]
    expect(await shop.run(['import', ...MAPPING, '--dry-run', '--json'])).toMatchObject({
      code: 1,
      json: { unheard },
    })
    const shown = await shop.run(['import', ...MAPPING, '--dry-run'])
    expect(shown.stdout).toContain('no destination hears invoice.sent (2 rows), Invoice.sent (1 row)')
    expect(shown.stdout).toContain(
      'the move would stop because of types that nobody hears, unless --allow-unheard',
    )
    const refused = await shop.run(['import', ...MAPPING])
    expect(refused.code).toBe(6)
    expect(refused.stderr).toContain('no destination hears invoice.sent (2 rows)')
    expect(left(db)).toBe(4)
    const all = [...MAPPING, '--allow-unheard', '--json']
    expect(await shop.run(['import', ...all, '--dry-run'])).toMatchObject({ code: 0, json: { unheard } })
    expect(await shop.run(['import', ...all])).toMatchObject({ code: 0, json: { moved: 4, unheard } })
  })

  it('says that nobody can know who hears where no destination is declared', async () => {
    const world = await createWorld(HOME_MADE)
    fill(world.db, 1)
    const shown = await world.import(...MAPPING, '--dry-run')
    expect(shown.code).toBe(0)
    expect(shown.stdout).toContain('no destination is known')
    expect((await world.import(...MAPPING, '--json')).json).toMatchObject({ moved: 1, unheard: null })
  })

  it('is killed in the middle and goes on: nothing is lost, doubled or overtaken', async () => {
    const world = await createWorld(HOME_MADE)
    const rows = 1_500
    fill(world.db, rows)
    const inTheMiddle = until(world.folder, () => left(world.db) <= rows - 100)
    const running = world.folder.start(['import', '--url', 'sqlite:shop.db', ...MAPPING, '--batch', '3'])
    await inTheMiddle
    running.child.kill('SIGKILL')
    await running.ended
    expect(world.events()).toHaveLength(rows - left(world.db))
    const stopped = left(world.db)
    expect(stopped).toBeGreaterThan(0)
    expect((await world.import(...MAPPING, '--json')).json).toMatchObject({ moved: stopped, unfinished: 0 })
    expect(numbers(world.events())).toEqual(Array.from({ length: rows }, (_, index) => index + 1))
  })

  it('stops between two batches at Ctrl-C', async () => {
    const world = await createWorld(HOME_MADE)
    fill(world.db, 1_500)
    const begun = until(world.folder, () => left(world.db) < 1_500)
    const running = world.folder.start([
      'import',
      '--url',
      'sqlite:shop.db',
      ...MAPPING,
      '--batch',
      '3',
      '--json',
    ])
    await begun
    running.child.kill('SIGINT')
    const { code, json } = await running.ended
    expect({ code, error: json.error.code }).toEqual({ code: 130, error: 'INTERRUPTED' })
    expect(json.error.message).toMatch(/^stopped: .* rows moved/)
    expect(world.events()).toHaveLength(1_500 - left(world.db))
  })

  it('takes text, bytes, nothing and large rows for what they are, and names what cannot be an event', async () => {
    const world = await createWorld(HOME_MADE)
    const insert = world.db.prepare(
      'INSERT INTO messages (id, name, body, owner, happened) VALUES (?, ?, ?, ?, ?)',
    )
    insert.run(1, 'a', '{"big":9007199254740993,"text":"ä\\u2028"}', null, 1_767_322_800)
    insert.run(2, 'a', Buffer.from([0xff, 0xfe]), '', '2026-01-02T03:04:05+02:00')
    insert.run(3, 'a', null, 'k', null)
    insert.run(4, 'a', 'not json', 'k', 'not a time')
    insert.run(5, '', '{}', 'k', null)
    insert.run(6, 'a', JSON.stringify('x'.repeat(1_048_576)), 'k', null)
    insert.run(7, 'a', '{"n":7}', 'k'.repeat(300), null)
    for (let id = 10; id < 30; id += 1) insert.run(id, 'a', JSON.stringify('y'.repeat(1_000_000)), 'k', null)
    const refused = await world.import(...MAPPING, '--json')
    expect(refused).toMatchObject({ code: 6, json: { error: { code: 'POSTHASTE_CONFLICT' } } })
    expect(refused.stderr).toContain(
      'row 5 of messages cannot become an event: its type is empty. Nothing of its batch was moved',
    )
    expect(world.events()).toEqual([])
    const moved = await world.import(...MAPPING, '--skip-invalid', '--json')
    expect(moved).toMatchObject({ code: 1, json: { ok: false, moved: 23, invalid: 4, unfinished: 4 } })
    expect(moved.json.batches).toBeGreaterThan(2)
    expect(moved.json.refused.map(({ id }: { id: string }) => id)).toEqual(['5', '6', '7', '4'])
    const events = world.events()
    const byId = (id: string) =>
      events.find(({ headers }) => String(headers).includes(`"imported-id":"${id}"`))
    expect(byId('1')).toMatchObject({ payload: '{"big":9007199254740993,"text":"ä\\u2028"}', key: null })
    expect(Number(byId('1')?.occurred_at)).toBe(1_767_322_800_000)
    expect(byId('2')).toMatchObject({ content_type: 'application/octet-stream', key: null })
    expect(Number(byId('2')?.occurred_at)).toBe(Date.parse('2026-01-02T01:04:05Z'))
    expect(byId('3')).toMatchObject({ payload: 'null', key: 'k' })
    const asText = await world.import(...MAPPING, '--format', 'text', '--skip-invalid', '--json')
    expect(asText.json).toMatchObject({ moved: 1 })
    expect(world.events().at(-1)).toMatchObject({ payload: '"not json"' })
  })

  it('quotes odd names, and refuses those that could leave their quotes', async () => {
    const odd = '"we;ird. table--" ("I d" TEXT PRIMARY KEY, "select" TEXT, "päy load" TEXT, "group" INT)'
    const world = await createWorld(`CREATE TABLE ${odd}`)
    world.db.exec(
      `INSERT INTO "we;ird. table--" VALUES ('0192f0c1-2c1a-7b1e-8c3d-000000000001', 'x', '{}', 0)`,
    )
    const mapping = [
      '--id',
      'I d',
      '--type',
      'select',
      '--payload',
      'päy load',
      '--pending',
      'group=0',
      '--done',
      'group=1',
    ]
    const moved = await world.import('--source', '"we;ird. table--"', ...mapping, '--json')
    expect(moved).toMatchObject({ code: 0, json: { moved: 1 } })
    expect(world.db.prepare('SELECT hex(id) AS id FROM outbox_events').get()).toMatchObject({
      id: '0192F0C12C1A7B1E8C3D000000000001',
    })
    const hostile = await world.import('--source', 'x"; DROP TABLE y; --', ...mapping)
    expect(hostile).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('cannot be the name of a table'),
    })
    const column = await world.import('--source', '"we;ird. table--"', ...mapping, '--key', 'a" OR 1=1 --')
    expect(column).toMatchObject({ code: 2 })
    expect(column.stderr).toContain('--key cannot be the name of a column')
  })

  it('refuses mappings that would lose, double or never end', async () => {
    const world = await createWorld(HOME_MADE, 'CREATE TABLE empty (a)')
    fill(world.db, 9)
    const wrong = async (...args: readonly string[]): Promise<readonly [number | null, string]> => {
      const { code, stderr } = await world.import(...args)
      expect(world.events()).toEqual([])
      expect(left(world.db)).toBe(9)
      return [code, stderr]
    }
    const replaced = (flag: string, value: string): readonly string[] =>
      MAPPING.map((word, index) => (MAPPING[index - 1] === flag ? value : word))
    const cases: readonly (readonly [readonly string[], number, string])[] = [
      [replaced('--id', 'owner'), 6, 'owner of messages does not tell one row from another'],
      [replaced('--id', 'sent'), 6, 'unfinished rows whose sent is empty'],
      [replaced('--done', 'name=done'), 6, 'would still be unfinished'],
      [replaced('--key', 'nobody'), 2, 'messages has no column nobody; it has: id, name'],
      [replaced('--source', 'nowhere'), 5, 'there is no table nowhere'],
      [replaced('--source', 'outbox_events'), 2, 'is a table of this outbox itself'],
      [['--from', 'rabbit'], 2, '--from does not know "rabbit"'],
      [['--from', 'pg-boss'], 2, '--from pg-boss is a table of postgres'],
      [[...MAPPING, '--delete'], 2, 'exclude each other'],
      [[...MAPPING, '--batch', '0'], 2, '--batch must be a whole number from 1 to 5000'],
    ]
    for (const [args, code, message] of cases) {
      const [actual, stderr] = await wrong(...args)
      expect([actual, stderr]).toEqual([code, expect.stringContaining(message)])
    }
  })

  it('needs the tables of the outbox', async () => {
    const folder = createFolder()
    const { code, stderr } = await folder.run(['import', '--url', 'sqlite:none.db', ...MAPPING])
    expect({ code, stderr }).toMatchObject({ code: 4, stderr: expect.stringContaining('posthaste migrate') })
  })

  it('leaves when nobody reads what it says', async () => {
    const world = await createWorld(HOME_MADE)
    fill(world.db, 300)
    const running = world.folder.start(['import', '--url', 'sqlite:shop.db', ...MAPPING, '--dry-run'])
    running.child.stdout?.destroy()
    expect([0, 141]).toContain((await running.ended).code)
    expect(left(world.db)).toBe(300)
  })
})
