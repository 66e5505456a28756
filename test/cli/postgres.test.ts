/** The same program on PostgreSQL, by address and by configuration. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { serviceUrls } from '../../scripts/services/index.ts'
import { lowestIdAt } from '../../src/stores/postgres/periods.ts'
import { DAY_MS, idsFrom } from '../stores/partition-cases.ts'
import { createFolder, PUBLISH } from './cli.ts'
import { beNewcomer } from './newcomer.ts'

let url: string
beforeAll(async () => {
  const urls = await serviceUrls(['postgres'])
  url = urls.postgres
})

const byHand = async (...statements: readonly string[]): Promise<void> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  for (const statement of statements) await client.query(statement)
  await client.end()
}

const newName = (): string => `cli_${randomBytes(6).toString('hex')}`

const newSchema = (): string => {
  const schema = newName()
  onTestFinished(() => byHand(`DROP SCHEMA IF EXISTS ${schema} CASCADE`))
  return schema
}

const CONFIG = "import { outbox } from './shop.mjs'\nexport default { outboxes: { shop: outbox } }"

describe('on PostgreSQL', { timeout: 240_000 }, () => {
  it('goes from an empty folder to a delivered event, and repairs a dead one', async () => {
    const database = newName()
    await byHand(`CREATE DATABASE ${database}`)
    onTestFinished(() => byHand(`DROP DATABASE ${database}`))
    const own = new URL(url)
    own.pathname = `/${database}`
    await beNewcomer({
      database: 'postgres',
      packages: ['pg'],
      env: { DATABASE_URL: own.href },
      statements: [
        "await tx.query('CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY)')",
        "await tx.query('INSERT INTO orders (id) VALUES ($1)', ['o-1'])",
      ],
    })
  })

  it('makes partitions ahead, drops those past retention, and keeps what is unfinished', async () => {
    const schema = newSchema()
    const folder = createFolder()
    folder.write(
      'shop.mjs',
      `import { createOutbox } from 'posthaste'
import { postgresStore } from 'posthaste/postgres'
export const outbox = createOutbox({
  store: postgresStore({ connectionString: ${JSON.stringify(url)}, schema: '${schema}', layout: 'partitioned', period: 'day' }),
  destinations: { mailer: { events: ['*'] } },
})
outbox.on('mailer', '*', () => {})`,
    )
    folder.write('posthaste.config.mjs', CONFIG)
    folder.write(
      'publish.mjs',
      `import { outbox } from './shop.mjs'
await outbox.transaction((tx) => outbox.publish(tx, { type: 'a', id: process.argv[2], payload: 1 }))
await outbox.close()`,
    )
    expect((await folder.run(['migrate', '--json'])).json).toMatchObject({ ok: true })
    const [empty, unfinished] = [20, 25].map((days) => Math.floor(Date.now() / DAY_MS - days) * DAY_MS) as [
      number,
      number,
    ]
    const partition = (table: string, ms: number): string =>
      `${table}_p${new Date(ms).toISOString().slice(0, 10).replaceAll('-', '')}`
    await byHand(
      ...['events', 'finished'].flatMap((table) =>
        [empty, unfinished].map(
          (day) =>
            `CREATE TABLE ${schema}.${partition(table, day)} PARTITION OF ${schema}.${table} FOR VALUES FROM ('${lowestIdAt(day)}') TO ('${lowestIdAt(day + DAY_MS)}')`,
        ),
      ),
    )
    expect(await folder.node('publish.mjs', idsFrom(unfinished)())).toMatchObject({ code: 0, stderr: '' })

    const [report] = (await folder.run(['partitions', '--lookahead', '768h', '--once', '--json'])).json
      .outboxes
    const ahead = [31, 32].map((days) => Date.now() + days * DAY_MS)
    expect([...report.created].sort()).toEqual(
      ['events', 'finished'].flatMap((table) => ahead.map((day) => partition(table, day))),
    )
    expect([...report.dropped].sort()).toEqual([
      partition('events', empty),
      partition('finished', unfinished),
      partition('finished', empty),
    ])
    expect(report.kept).toEqual([
      { name: partition('events', unfinished), reason: expect.stringContaining('unfinished or dead') },
    ])
    const place = ['--url', url, '--schema', schema, '--period', 'day']
    const again = await folder.run(['partitions', ...place, '--lookahead', '768h'])
    expect(again).toMatchObject({ code: 0 })
    expect(again.stdout).toContain('made 0, dropped 0')
    expect(again.stdout).toContain(`kept     ${partition('events', unfinished)}`)

    // Rows without an event that died in a partition, and that nobody vacuums.
    await byHand(
      `ALTER TABLE ${schema}.finished_tail SET (autovacuum_enabled = false)`,
      `INSERT INTO ${schema}.finished (id, event_id, seq, created_at, finished_at, size, run, attempts, suspicions, lane, status, destination)
SELECT gen_random_uuid(), gen_random_uuid(), n, now(), now(), 0, 1, 1, 0, 0, 1, '' FROM generate_series(1, 101000) AS n`,
      `DELETE FROM ${schema}.finished_tail`,
    )
    const { findings } = (await folder.run(['doctor', '--json'])).json
    expect(findings.find(({ check }: { check: string }) => check === 'bloat')).toMatchObject({
      level: 'warning',
      text: expect.stringMatching(/^10\d{4} dead rows beside 0 live ones in finished_tail$/),
      remedy: 'VACUUM finished_tail, and look for long transactions',
    })
  })

  it('migrates, works, looks and doctors', async () => {
    const schema = newSchema()
    const folder = createFolder()
    folder.write(
      'shop.mjs',
      `import { createOutbox } from 'posthaste'
import { postgresStore } from 'posthaste/postgres'
export const outbox = createOutbox({
  store: postgresStore({ connectionString: process.env.DATABASE_URL ?? ${JSON.stringify(url)}, schema: '${schema}' }),
  destinations: { mailer: { events: ['*'] } },
})
outbox.on('mailer', '*', (event) => {
  if (event.payload.email === 'ada') throw new Error('no address')
})
`,
    )
    folder.write('posthaste.config.mjs', CONFIG)
    folder.write('publish.mjs', PUBLISH)
    expect(await folder.run(['status'])).toMatchObject({ code: 4 })
    expect((await folder.run(['migrate', '--json'])).json).toMatchObject({ ok: true })
    const id = (await folder.node('publish.mjs', '1', 'ada')).stdout.trim()
    await folder.node('publish.mjs', '5')
    const settings = ['--set', 'retry.maxAttempts=1', '--log-level', 'silent']
    expect((await folder.run(['worker', '--once', '--json', ...settings])).json).toMatchObject({
      done: 5,
      dead: 1,
    })
    const env = { DATABASE_URL: url }
    const byUrl = await folder.run(['status', '--json', '--url', url, '--schema', schema], { env })
    expect(byUrl.json.outboxes[0].destinations).toMatchObject([
      { name: 'mailer', counts: { done: 5, dead: 1 } },
    ])
    expect((await folder.run(['why', id])).stdout).toContain('Dead after one attempt')
    expect((await folder.run(['dead', 'redrive', id, '--json'])).json).toMatchObject({ redriven: 1 })

    const worker = folder.start(['worker'])
    await worker.line(/"the worker delivers"/)
    const doctor = await folder.run(['doctor', '--json', '--url', url, '--table', schema])
    const levels = Object.fromEntries(
      doctor.json.findings.map(({ check, level }: { check: string; level: string }) => [check, level]),
    )
    expect(levels).toMatchObject({
      schema: 'ok',
      clock: 'ok',
      indexes: 'ok',
      isolation: 'ok',
      pooler: 'ok',
      'worker alive': 'ok',
    })
    // Another schema still has one of that name.
    const other = newSchema()
    await folder.run(['migrate', '--url', url, '--schema', other])
    await byHand(`DROP INDEX ${schema}.deliveries_fresh`)
    const again = await folder.run(['doctor', '--json', '--url', url, '--schema', schema])
    expect(again.code).toBe(1)
    expect(again.json.findings.find(({ check }: { check: string }) => check === 'indexes')).toMatchObject({
      level: 'error',
      text: 'missing: deliveries_fresh',
    })
    expect((await folder.run(['why', id])).stdout).toMatch(/Its lane \d+ belongs to .*:\d+, until|Delivered/)
    worker.child.kill('SIGTERM')
    expect(await worker.ended).toMatchObject({ code: 0 })
    await byHand(`DROP TABLE ${schema}.deliveries CASCADE`)
    const without = await folder.run(['doctor', '--json', '--url', url, '--schema', schema])
    expect(without.json.findings.find(({ check }: { check: string }) => check === 'indexes')).toMatchObject({
      level: 'error',
      text: `there is no table ${schema}.deliveries, though it was migrated`,
    })
  })
})
