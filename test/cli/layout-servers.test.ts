/** The option layout says how the tables were made; where it says it wrongly, people are told what to do. */
import { randomBytes } from 'node:crypto'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { serviceUrls } from '../../scripts/services/index.ts'
import { createFolder, type Folder } from './cli.ts'

const LAYOUTS = ['plain', 'partitioned'] as const
type Layout = (typeof LAYOUTS)[number]

const SERVERS = ['postgres', 'mariadb', 'mysql'] as const
type Server = (typeof SERVERS)[number]

const dropLater = (server: Server, url: string, name: string): void =>
  onTestFinished(async () => {
    if (server === 'postgres') {
      const client = new pg.Client({ connectionString: url })
      await client.connect()
      await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE`)
      await client.end()
      return
    }
    const client = await mysql.createConnection(url)
    const [tables] = await client.query<mysql.RowDataPacket[]>('SHOW FULL TABLES LIKE ?', [`${name}%`])
    for (const table of tables) {
      const [one, kind] = Object.values(table)
      await client.query(`DROP ${kind === 'VIEW' ? 'VIEW' : 'TABLE'} ${one}`)
    }
    await client.end()
  })

interface Place {
  readonly folder: Folder
  readonly byUrl: readonly string[]
  /** Name of the configuration whose store is told so. */
  told(layout: Layout): readonly string[]
}

const createPlace = async (server: Server): Promise<Place> => {
  const url = (await serviceUrls([server]))[server]
  const name = `cli_${randomBytes(6).toString('hex')}`
  dropLater(server, url, name)
  const [entry, make, place] =
    server === 'postgres'
      ? (['postgres', 'postgresStore', { schema: name }] as const)
      : (['mysql', 'mysqlStore', { prefix: `${name}_` }] as const)
  const folder = createFolder()
  for (const layout of LAYOUTS)
    folder.write(
      `${layout}.mjs`,
      `import { createOutbox } from 'posthaste'
import { ${make} } from 'posthaste/${entry}'
const outbox = createOutbox({
  store: ${make}(${JSON.stringify({ connectionString: url, ...place, layout })}),
  destinations: { mailer: { events: ['*'] } },
})
export default { outboxes: { shop: outbox } }`,
    )
  return {
    folder,
    byUrl: ['--url', url, ...Object.entries(place).flatMap(([flag, value]) => [`--${flag}`, value])],
    told: (layout) => ['--config', `${layout}.mjs`],
  }
}

const findings = async ({ folder }: Place, flags: readonly string[]) => {
  const { json, code } = await folder.run(['doctor', ...flags, '--json'])
  const of = (wanted: string) => json.findings.find(({ check }: { check: string }) => check === wanted)
  return { code, layout: of('layout'), indexes: of('indexes') }
}

describe.each(SERVERS)('%s', { timeout: 120_000 }, (server) => {
  it('tables without partitions, and a configuration that speaks of some', async () => {
    const place = await createPlace(server)
    const { folder, told, byUrl } = place
    expect((await findings(place, told('plain'))).layout).toMatchObject({ level: 'ok' })
    expect(await folder.run(['migrate', ...told('plain')])).toMatchObject({ code: 0 })
    expect((await findings(place, told('plain'))).layout).toMatchObject({
      level: 'ok',
      text: 'plain, as the tables were made',
    })
    expect(await findings(place, told('partitioned'))).toMatchObject({
      code: 1,
      layout: {
        level: 'error',
        text: expect.stringMatching(
          /says "partitioned", but cli_\w+[._]events and cli_\w+[._]finished have no/,
        ),
        remedy: expect.stringContaining('set layout to "plain"'),
      },
      // Those of the other layout would be of no use.
      indexes: { level: 'skipped' },
    })
    const again = await folder.run(['migrate', ...told('partitioned'), '--json'])
    expect(again).toMatchObject({ code: 0, stderr: expect.stringContaining('set layout to "plain"') })
    expect(again.json.outboxes[0].layout).toMatchObject({ text: expect.stringContaining('no partitions') })
    const cleanup = await folder.run(['cleanup', ...told('partitioned')])
    expect(cleanup).toMatchObject({ code: 4, stderr: expect.stringContaining('tables without partitions') })
    expect(cleanup.stderr).toContain('Set it to "plain"')
    const partitions = await folder.run(['partitions', ...told('partitioned')])
    expect(partitions).toMatchObject({ code: 6, stderr: expect.stringContaining('set layout to "plain"') })
    // Nobody who gives an address has said anything of a layout.
    expect((await findings(place, byUrl)).layout).toMatchObject({ level: 'ok' })
    const alone = await folder.run(['partitions', ...byUrl])
    expect(alone.code).toBe(6)
    expect(alone.stderr).toContain('have no partitions; posthaste cleanup serves them')
  })

  it('tables with partitions, and a configuration that does not know it', async () => {
    const place = await createPlace(server)
    const { folder, told, byUrl } = place
    expect(await folder.run(['migrate', ...told('partitioned')])).toMatchObject({ code: 0, stderr: '' })
    expect(await folder.run(['migrate', ...byUrl])).toMatchObject({ code: 0, stderr: '' })
    expect(await findings(place, told('partitioned'))).toMatchObject({
      layout: { level: 'ok', text: 'partitioned, as the tables were made' },
      indexes: { level: 'ok' },
    })
    expect(await findings(place, told('plain'))).toMatchObject({
      code: 1,
      layout: {
        level: 'error',
        text: expect.stringMatching(/says "plain", but .* have partitions/),
        remedy: expect.stringContaining('set layout to "partitioned"'),
      },
    })
    const partitions = await folder.run(['partitions', ...told('plain')])
    expect(partitions).toMatchObject({
      code: 6,
      stderr: expect.stringContaining('set layout to "partitioned"'),
    })
    expect((await findings(place, byUrl)).layout).toMatchObject({
      level: 'ok',
      text: expect.stringContaining('have partitions'),
    })
    expect(await folder.run(['partitions', ...byUrl])).toMatchObject({ code: 0 })
  })
})
