/** The programs of docs/clients that need a server, each on an empty database. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { serverOf } from '../clients/databases.ts'
import { CLIENT_TARGETS } from '../clients/targets.ts'
import { runClientPage } from '../docs/client-pages.ts'
import { runByHand } from '../stores/mysql-harness.ts'
import { type ServerName, serverUrl } from '../stores/servers.ts'

/** A page is about the first database that its client supports. */
const pages = Object.entries(CLIENT_TARGETS).flatMap(([name, { databases }]) => {
  const server = databases[0] === undefined ? null : serverOf(databases[0])
  return server === null ? [] : [[name, server] as const]
})

const runOn = async (server: ServerName, sql: string): Promise<void> => {
  if (server === 'mariadb') return void (await runByHand(server, sql))
  const client = new pg.Client({ connectionString: serverUrl(server) })
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

describe.concurrent('pages of clients', () => {
  it.each(pages)('%s: prints what it says on %s', async (page, server) => {
    const name = `page_${randomBytes(6).toString('hex')}`
    await runOn(server, `CREATE DATABASE ${name}`)
    try {
      const url = new URL(serverUrl(server))
      url.pathname = `/${name}`
      const { printed, said } = await runClientPage(page, { databaseUrl: url.href })
      expect(printed).toEqual(said)
    } finally {
      // Of a program that was killed a connection may be left.
      await runOn(server, `DROP DATABASE ${name}${server === 'mariadb' ? '' : ' WITH (FORCE)'}`)
    }
  })
})
