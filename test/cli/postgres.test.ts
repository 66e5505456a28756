/** The same program on PostgreSQL, by address and by configuration. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { serviceUrls } from '../../scripts/services/index.ts'
import { createFolder, PUBLISH } from './cli.ts'

it('migrates, works, looks and doctors', { timeout: 240_000 }, async () => {
  const { postgres: url } = await serviceUrls(['postgres'])
  const schema = `cli_${randomBytes(6).toString('hex')}`
  onTestFinished(async () => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    await client.end()
  })
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
  folder.write(
    'posthaste.config.mjs',
    "import { outbox } from './shop.mjs'\nexport default { outboxes: { shop: outbox } }",
  )
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
  expect((await folder.run(['why', id])).stdout).toMatch(/Its lane \d+ belongs to .*:\d+, until|Delivered/)
  worker.child.kill('SIGTERM')
  expect(await worker.ended).toMatchObject({ code: 0 })
})
