/** The tables go on in another cluster, which counts its transactions from somewhere else. */
import { expect, it } from 'vitest'
import { newPostgresUrl, postgresUrl } from '../stores/servers.ts'
import { PostgresWorld, publishTick } from './postgres-world.ts'
import { startProxy } from './proxy.ts'

/** What a dump and a restore do, without the programs for it. */
const copyTables = async (from: PostgresWorld, to: PostgresWorld): Promise<void> => {
  const tables = await from.rows<{ name: string }>(
    "SELECT table_name AS name FROM information_schema.tables WHERE table_schema = '{schema}' AND table_type = 'BASE TABLE'",
  )
  for (const { name } of tables) {
    const [dump] = await from.rows<{ rows: string }>(
      `SELECT coalesce(json_agg(row_to_json(t)), '[]')::text AS rows FROM {schema}.${name} AS t`,
    )
    await to.rows(`TRUNCATE {schema}.${name}`)
    await to.rows(
      `INSERT INTO {schema}.${name} OVERRIDING SYSTEM VALUE
        SELECT * FROM json_populate_recordset(NULL::{schema}.${name}, $1::json)`,
      [dump?.rows],
    )
  }
  const [sequence] = await from.rows<{ last: string }>('SELECT last_value AS last FROM {schema}.events_seq')
  await to.rows("SELECT setval('{schema}.events_seq', $1)", [sequence?.last])
}

const numbers = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

const servers = { newest: newPostgresUrl, oldest: postgresUrl } as const

it.each([
  ['newest', 'oldest'],
  ['oldest', 'newest'],
] as const)(
  '[53] a worker whose database was restored from %s to %s misses nothing and repeats nothing',
  async (before, after) => {
    await using old = new PostgresWorld(servers[before]())
    await using restored = new PostgresWorld(servers[after](), old.schema)
    await using proxy = await startProxy(old.url)
    const worker = old.listen(old.outbox({ url: proxy.url, laneLeaseMs: 60_000 }))
    const publisher = old.outbox({ serve: [] })
    await worker.start()
    await publisher.start()
    for (const n of numbers(0, 30)) await publishTick(publisher, n, n % 2 === 0 ? `k${n % 3}` : undefined)
    await old.drained()
    proxy.refuse()
    proxy.cut()
    for (const n of numbers(30, 60)) await publishTick(publisher, n, n % 2 === 0 ? `k${n % 3}` : undefined)
    await restored.migrate()
    await copyTables(old, restored)
    proxy.redirect(restored.url)
    proxy.pass()
    await old.until(() => new Set(old.numbers).size === 60)
    for (const n of numbers(60, 80)) await publishTick(worker, n, `k${n % 3}`)
    await old.until(() => new Set(old.numbers).size === 80)
    expect(old.numbers).toHaveLength(80)
    for (const key of ['k0', 'k1', 'k2']) {
      const heard = old.heard.filter((one) => one.key === key).map(({ n }) => n)
      expect(heard).toEqual(heard.toSorted((a, b) => a - b))
    }
    await worker.close()
  },
)
