/** `posthaste doctor` on MySQL and MariaDB, where indexes are part of the tables. */
import { randomBytes } from 'node:crypto'
import mysql from 'mysql2/promise'
import { expect, it, onTestFinished } from 'vitest'
import { serviceUrls } from '../../scripts/services/index.ts'
import { createFolder } from './cli.ts'

it.each(['mysql', 'mariadb'] as const)(
  '%s: the isolation is told, and an index that is missing is named, with the statement that makes it',
  {
    timeout: 60_000,
  },
  async (server) => {
    const url = (await serviceUrls([server]))[server]
    const prefix = `cli_${randomBytes(6).toString('hex')}_`
    const client = await mysql.createConnection(url)
    onTestFinished(async () => {
      const [tables] = await client.query<mysql.RowDataPacket[]>('SHOW FULL TABLES LIKE ?', [`${prefix}%`])
      for (const table of tables) {
        const [name, kind] = Object.values(table)
        await client.query(`DROP ${kind === 'VIEW' ? 'VIEW' : 'TABLE'} ${name}`)
      }
      await client.end()
    })
    const folder = createFolder()
    const place = ['--url', url, '--prefix', prefix]
    const finding = async (wanted: string) => {
      const { json } = await folder.run(['doctor', ...place, '--json'])
      return json.findings.find(({ check }: { check: string }) => check === wanted)
    }
    const indexes = () => finding('indexes')
    expect(await folder.run(['migrate', ...place])).toMatchObject({ code: 0 })
    expect(await indexes()).toMatchObject({ level: 'ok', text: 'all 12 are there' })
    expect(await finding('isolation')).toMatchObject({
      level: 'ok',
      text: expect.stringMatching(/^repeatable read by default/),
    })
    await client.query(`DROP INDEX by_key ON ${prefix}deliveries`)
    const found = await indexes()
    expect(found).toMatchObject({ level: 'error', text: `missing: ${prefix}deliveries.by_key` })
    await client.query(/ALTER TABLE .*;/.exec(found.remedy)?.[0] ?? '')
    expect(await indexes()).toMatchObject({ level: 'ok' })
    await client.query(`ALTER TABLE ${prefix}dedup DROP PRIMARY KEY, DROP INDEX by_age`)
    // One that has no index any more is there all the same.
    expect(await indexes()).toMatchObject({ level: 'error', text: `missing: ${prefix}dedup.by_age` })
    await client.query(`RENAME TABLE ${prefix}dedup TO ${prefix}away`)
    expect(await indexes()).toMatchObject({
      level: 'error',
      text: `there is no table ${prefix}dedup, though it was migrated`,
    })
    await client.query(`RENAME TABLE ${prefix}away TO ${prefix}dedup`)
    const user = `ph_${randomBytes(6).toString('hex')}`
    await client.query(`CREATE USER '${user}'@'%' IDENTIFIED BY 'Secret-1'`)
    onTestFinished(async () => void (await client.query(`DROP USER '${user}'@'%'`)))
    for (const table of [
      'deliveries',
      'destinations',
      'events',
      'finished',
      'migrations',
      'workers',
      'lanes',
    ])
      await client.query(`GRANT SELECT ON ${prefix}${table} TO '${user}'@'%'`)
    place[1] = Object.assign(new URL(url), { username: user, password: 'Secret-1' }).href
    // What this user may not see is not missing.
    expect(await indexes()).toMatchObject({
      level: 'skipped',
      text: expect.stringContaining(`${prefix}dedup`),
    })
  },
)
