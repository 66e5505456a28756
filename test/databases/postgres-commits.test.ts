/** What is known at the end of a transaction on PostgreSQL, and what is sent then. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { newPostgresUrl } from '../stores/servers.ts'
import { type PgOutbox, PostgresWorld, publishTick, tick } from './postgres-world.ts'
import { startProxy } from './proxy.ts'

let world: PostgresWorld
let outbox: PgOutbox

beforeEach(async () => {
  world = new PostgresWorld(newPostgresUrl())
  outbox = world.listen(world.outbox())
  await outbox.start()
})

afterEach(() => world[Symbol.asyncDispose]())

const storedEvents = async (): Promise<number> => (await world.rows('SELECT FROM {schema}.events')).length

/** One more event goes all the way; what is not heard by then was not sent. */
const passMarker = async (through: PgOutbox, n: number): Promise<void> => {
  await publishTick(through, n)
  await world.until(() => world.numbers.includes(n))
  await world.drained()
}

describe('a COMMIT that is answered with ROLLBACK', () => {
  it('[2] after an error that was swallowed, sends nothing and says so', async () => {
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, tick(1))
      await outbox.publish(tx, tick(2, 'k'))
      await tx.query('SELECT 1/0').catch(() => undefined)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    await passMarker(outbox, 9)
    expect(world.numbers).toEqual([9])
    expect(await storedEvents()).toBe(1)
  })

  it('[2] in the manual form, sends nothing and says so', async () => {
    await using open = await outbox.begin()
    await open.publish(tick(1))
    await open.tx.query('SELECT 1/0').catch(() => undefined)
    await expect(open.commit()).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    await passMarker(outbox, 9)
    expect(world.numbers).toEqual([9])
    expect(await storedEvents()).toBe(1)
  })

  it('[2] a constraint that is checked at COMMIT rolls back, and nothing is sent', async () => {
    await world.rows('CREATE TABLE {schema}.late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)')
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, tick(1))
      await tx.query(`INSERT INTO ${world.schema}.late VALUES (1), (1)`)
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_ROLLED_BACK' })
    await passMarker(outbox, 9)
    expect(world.numbers).toEqual([9])
  })
})

describe('a connection that is cut at COMMIT', () => {
  it.each([
    { form: 'transaction', when: 'before' },
    { form: 'transaction', when: 'after' },
    { form: 'begin', when: 'before' },
    { form: 'begin', when: 'after' },
  ] as const)(
    '[3] $when the server saw it, in the form $form: unknown, and only the poller may send',
    async ({ form, when }) => {
      await using proxy = await startProxy(world.url)
      // The other process would deliver it as well.
      await outbox.stop()
      const cut = world.listen(world.outbox({ url: proxy.url, hotLeaseMs: 1_000 }))
      await cut.start()
      const sprung = proxy.cutAt('COMMIT', when)
      const commit = async (): Promise<void> => {
        if (form === 'transaction') {
          await cut.transaction(async (tx) => {
            await cut.publish(tx, tick(1))
            await cut.publish(tx, tick(2, 'k'))
          })
          return
        }
        await using open = await cut.begin()
        await open.publish(tick(1))
        await open.publish(tick(2, 'k'))
        await open.commit()
      }
      await expect(commit()).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
      await sprung
      await passMarker(cut, 9)
      const sent = world.heard.filter(({ n }) => n !== 9).sort((a, b) => a.n - b.n)
      if (when === 'before') expect(sent).toEqual([])
      else
        expect(sent).toEqual([
          { n: 1, key: null, source: 'cold' },
          { n: 2, key: 'k', source: 'cold' },
        ])
      await cut.close()
    },
  )
})

describe('savepoints and connections that are used again', () => {
  it('[5] what a rolled-back savepoint published is neither stored nor sent', async () => {
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, tick(1))
      await outbox
        .transaction(async (inner) => {
          await outbox.publish(inner, tick(2))
          await outbox.transaction((innermost) => outbox.publish(innermost, tick(3)))
          throw new Error('changed my mind')
        })
        .catch(() => undefined)
      await outbox.transaction((inner) => outbox.publish(inner, tick(4)))
    })
    await passMarker(outbox, 9)
    expect(world.numbers.sort()).toEqual([1, 4, 9])
    expect(await storedEvents()).toBe(3)
  })

  it('[5] a statement that fails inside a savepoint undoes only that savepoint', async () => {
    await outbox.transaction(async (tx) => {
      await outbox.publish(tx, tick(1, 'k'))
      await outbox
        .transaction(async (inner) => {
          await outbox.publish(inner, tick(2, 'k'))
          await inner.query('SELECT 1/0')
        })
        .catch(() => undefined)
      await outbox.publish(tx, tick(3, 'k'))
    })
    await passMarker(outbox, 9)
    // Events with other keys, or with none, may come in between.
    expect(world.numbers.filter((n) => n !== 9)).toEqual([1, 3])
  })

  it('[6] a connection that is used again after a rollback publishes nothing of the transaction before', async () => {
    await outbox.stop()
    const single = world.listen(world.outbox({ storeOptions: { poolSize: 2 } }))
    await single.start()
    const pids = new Set<number>()
    const pidOf = `SELECT pg_backend_pid() AS pid`
    for (let n = 0; n < 6; n += 1) {
      const keeps = n % 2 === 1
      const running = single.transaction(async (tx) => {
        pids.add((await tx.query<{ pid: number }>(pidOf)).rows[0]?.pid ?? 0)
        await single.publish(tx, tick(n))
        if (!keeps) throw new Error('no')
      })
      await (keeps ? running : expect(running).rejects.toThrow('no'))
    }
    await passMarker(single, 9)
    expect(pids.size).toBeLessThan(6)
    expect(world.numbers.sort()).toEqual([1, 3, 5, 9])
    expect(await storedEvents()).toBe(4)
    await single.close()
  })
})

describe('the transactions of the application', () => {
  it('[33] carry no NOTIFY, neither as we send them nor as the server gets them', async () => {
    await using proxy = await startProxy(world.url)
    const wire = new Map<number, string>()
    proxy.onSent((connection, data) => wire.set(connection, (wire.get(connection) ?? '') + data))
    const statements: string[] = []
    const other = world.outbox({
      url: proxy.url,
      serve: [],
      destinations: { elsewhere: { events: ['*'] } },
      storeOptions: { onStatement: (sql) => void statements.push(sql) },
    })
    await other.start()
    statements.length = 0
    wire.clear()
    await other.transaction(async (tx) => {
      await other.publish(tx, tick(1))
      await other.publishMany(tx, [tick(2), tick(3, 'k')])
      await other.publish(tx, { ...tick(4), idempotencyKey: 'once' })
    })
    await world.until(() => world.numbers.length === 4)
    const sent = statements.slice(statements.indexOf('BEGIN'), statements.indexOf('COMMIT') + 1)
    expect(sent).toHaveLength(5)
    expect(sent.filter((sql) => /notify/i.test(sql))).toEqual([])
    const [begun = ''] = [...wire.values()].filter((data) => data.includes('BEGIN\0'))
    const arrived = begun.slice(begun.indexOf('BEGIN\0'), begun.indexOf('COMMIT\0'))
    expect(arrived).toContain('INSERT INTO')
    expect(arrived).not.toMatch(/notify/i)
    await other.close()
  })
})
