/** Settings that a server, a user or a pool may have, and that must not change what the store does. */
import mysql from 'mysql2/promise'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import type { StoreHarness } from '../../src/testing/suites/index.ts'
import { StoreFixture } from '../../src/testing/suites/store-fixture.ts'
import { runByHand } from './mysql-harness.ts'
import { createWorld, SERVERS, type World } from './mysql-words.ts'
import { serverUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

let world: World

/** The suite's words on a store with other options, over the same tables. */
const withStore = async (
  source: { readonly connectionString: string } | { readonly pool: mysql.Pool },
  body: (t: StoreFixture) => Promise<void>,
): Promise<void> => {
  const { prefix } = world.harness
  const store = 'pool' in source ? mysqlStore({ ...source, prefix }) : mysqlStore({ ...source, prefix })
  await store.open(testContext())
  try {
    await body(new StoreFixture({ store, dispose: async () => undefined } as unknown as StoreHarness))
  } finally {
    await store.close()
  }
}

describe.each(SERVERS)('%s', (server) => {
  beforeEach(async () => {
    world = await createWorld(server)
  })

  afterEach(() => world.close())

  it('transactions that chain, safe updates and a limit of rows do not matter', async () => {
    const user = `${world.harness.prefix}odd`
    const url = new URL(serverUrl(server))
    const odd = (value: string, usual: string): string =>
      `IF(CURRENT_USER() LIKE '${user}%', ${value}, ${usual})`
    // For one user, because the server is everybody's.
    const text = `SET SESSION completion_type = ${odd('1', '0')}, sql_safe_updates = ${odd('1', '0')}, sql_select_limit = ${odd('1', '9223372036854775807')}`
    await runByHand(
      server,
      `CREATE USER '${user}'@'%' IDENTIFIED BY 'Secret-1'; GRANT ALL ON ${url.pathname.slice(1)}.* TO '${user}'@'%';
       SET GLOBAL init_connect = '${text.replaceAll("'", "''")}'`,
    )
    url.username = user
    url.password = 'Secret-1'
    try {
      const published = await world.t.publishMany(3)
      await withStore({ connectionString: url.href }, async (t) => {
        await t.declare('alpha')
        const worker = await t.worker()
        const { lanes } = t.store
        expect((await lanes.take(worker.id, 'alpha', 64)).length).toBe(64)
        expect((await lanes.survey(worker.id, ['alpha'])).destinations.get('alpha')?.mine.length).toBe(64)
        expect((await t.read()).fresh.length).toBe(3)
        for (const one of published) {
          // What is not committed would make the next one of another connection wait.
          expect(await lanes.renew(worker.id, 60_000)).toBe(true)
          await t.done(one, worker.right)
        }
      })
      for (const one of published) expect(await world.t.status(one)).toBe('done')
    } finally {
      await runByHand(server, `SET GLOBAL init_connect = ''; DROP USER '${user}'@'%'`)
    }
  })

  const TEXTS = ["it's", 'a\\b', '"\\"', '日', '∧', '\u0085', 'é', '😀', "\\'; --"]

  it.each([
    ['latin1', ''],
    ['utf8', ''],
    ['gbk', ''],
    ['utf8mb4', 'NO_BACKSLASH_ESCAPES'],
    ['latin1', 'NO_BACKSLASH_ESCAPES'],
    ['utf8mb4', 'ANSI'],
  ])('texts arrive as they are over a connection with %s and the sql_mode "%s"', async (charset, mode) => {
    const pool = mysql.createPool({ uri: serverUrl(server), charset, connectionLimit: 1 })
    try {
      await pool.query(`SET SESSION sql_mode = '${mode}'`)
      await withStore({ pool }, async (t) => {
        const published = TEXTS.map((text) =>
          t.prepare({
            key: text,
            tenantId: text,
            idempotencyKey: text,
            headers: { h: text },
            data: JSON.stringify(text),
          }),
        )
        const [first, ...others] = published
        for (const some of [[first!], others]) {
          const request = {
            events: some.map(({ event }) => event),
            deliveries: some.map(({ delivery }) => delivery),
          }
          expect([...(await t.insert(request)).duplicates]).toEqual([])
        }
        for (const [i, one] of published.entries()) {
          const again = t.prepare({ idempotencyKey: TEXTS[i]! })
          expect([
            ...(await t.insert({ events: [again.event], deliveries: [again.delivery] })).duplicates,
          ]).toEqual([[again.event.id, one.event.id]])
        }
      })
      const { fresh } = await world.t.read()
      expect(fresh.map(({ key }) => key)).toEqual(TEXTS)
      for (const [i, { event }] of fresh.entries())
        expect([event?.tenantId, event?.headers.h, event?.data]).toEqual([
          TEXTS[i],
          TEXTS[i],
          JSON.stringify(TEXTS[i]),
        ])
    } finally {
      await pool.end()
    }
  })
})
