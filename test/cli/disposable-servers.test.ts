/** `posthaste prove` and `posthaste bench` on servers, where connections can be cut as well. */
import mysql from 'mysql2/promise'
import pg from 'pg'
import { expect, it } from 'vitest'
import { serviceUrls } from '../../scripts/services/index.ts'
import { createFolder } from './cli.ts'

const PROVEN = { ok: true, lost: 0, ghosts: 0, unexplained: 0, orderViolations: 0, drained: true }

const consent = (url: string): readonly string[] => [
  ...['--url', url, '--yes', '--database-is-disposable', new URL(url).pathname.slice(1), '--json'],
]

it('PostgreSQL is proved and measured, and nothing stays', async () => {
  const { postgres: url } = await serviceUrls(['postgres'])
  const folder = createFolder()
  const refused = await folder.run(['prove', '--url', url, '--yes', '--database-is-disposable', 'postgres'])
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('"postgres" is not its name') })
  expect(refused.stderr).not.toContain(
    new URL(url).password === 'posthaste' ? ':posthaste@' : new URL(url).password,
  )
  const proved = await folder.run(['prove', ...consent(url), '--minutes', '0.05'])
  expect(proved).toMatchObject({
    code: 0,
    json: { ...PROVEN, faults: { 'cut-connections': expect.any(Number) } },
  })
  const measured = await folder.run(['bench', ...consent(url), '--seconds', '1'])
  expect(measured).toMatchObject({ code: 0, json: { ok: true, store: 'postgres', drain: { drained: true } } })
  expect(measured.json.publish.statementsPerEvent).toBeGreaterThanOrEqual(3)
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const left = await client.query(
    "SELECT nspname FROM pg_namespace WHERE nspname ~ '^posthaste_(prove|bench)_'",
  )
  await client.end()
  expect(left.rows).toEqual([])
})

it('MySQL is proved, and nothing stays', async () => {
  const { mysql: url } = await serviceUrls(['mysql'])
  const folder = createFolder()
  const proved = await folder.run(['prove', ...consent(url), '--minutes', '0.05'])
  expect(proved).toMatchObject({ code: 0, json: PROVEN })
  const client = await mysql.createConnection(url)
  const [left] = await client.query("SHOW TABLES LIKE 'posthaste\\_prove\\_%'")
  await client.end()
  expect(left).toEqual([])
})
