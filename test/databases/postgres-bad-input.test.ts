/** What people get wrong, and what they are told. */
import { randomBytes } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { newPostgresUrl } from '../stores/servers.ts'
import { PostgresWorld, publishTick, tick } from './postgres-world.ts'
import { startProxy } from './proxy.ts'

let world: PostgresWorld

beforeEach(() => {
  world = new PostgresWorld(newPostgresUrl())
})

afterEach(() => world[Symbol.asyncDispose]())

const SECRET = 'hunter2'

/** The server's address with one part of it replaced. */
const changed = (
  change: Partial<Pick<URL, 'hostname' | 'port' | 'username' | 'password' | 'pathname'>>,
): string => Object.assign(new URL(world.url), change).href

const failureOf = async (
  action: Promise<unknown>,
): Promise<{ readonly code: string; readonly text: string }> => {
  const error = await action.then(
    () => new Error('it worked'),
    (reason: unknown) => reason as Error,
  )
  const { code = '', detail } = error as Error & { readonly code?: string; readonly detail?: unknown }
  return { code, text: `${error.message} ${JSON.stringify(detail)}` }
}

describe('an address that is wrong', () => {
  it.each([
    ['a port where nobody listens', 'ECONNREFUSED', { port: '1' }],
    ['a host that does not exist', 'cannot be reached', { hostname: 'nowhere.invalid' }],
    ['a wrong password', 'refused the user name or password', { password: SECRET }],
    ['an unknown user', 'refused the user name or password', { username: 'nobody_at_all' }],
    ['an unknown database', 'does not have the database', { pathname: '/nothing_here' }],
  ] as const)('%s is said, without the password', async (_, words, change) => {
    const { code, text } = await failureOf(world.outbox({ url: changed(change) }).start())
    expect(code).toBe('POSTHASTE_STORE_UNAVAILABLE')
    expect(text).toContain(words)
    expect(text).not.toContain(SECRET)
  })

  it.each(['', 'localhost:5432', 'mysql://root@localhost/x', `http://u:${SECRET}@localhost`])(
    'what is no address of PostgreSQL is refused before any I/O: %s',
    (connectionString) => {
      const build = (): unknown => postgresStore({ connectionString })
      expect(build).toThrow(expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION' }))
      expect(build).not.toThrow(SECRET)
    },
  )

  it('an address that is right in form and cannot be parsed is refused before any I/O, without the password', () => {
    const build = (): unknown => postgresStore({ connectionString: `postgres://u:${SECRET}@host:notaport/x` })
    expect(build).toThrow(expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION' }))
    expect(build).not.toThrow(SECRET)
  })
})

describe('tables that do not fit', () => {
  it('are missing: start and publish say what to do, and afterwards they work', async () => {
    const outbox = world.listen(world.outbox({ migrate: false }))
    for (const attempt of [() => outbox.start(), () => publishTick(outbox, 1)]) {
      const { code, text } = await failureOf(attempt())
      expect(code).toBe('POSTHASTE_SCHEMA_BEHIND')
      expect(text).toMatch(/outbox\.schema\.migrate\(\)/)
    }
    await outbox.schema.migrate()
    await outbox.start()
    await publishTick(outbox, 2)
    await world.drained()
    expect(world.numbers).toEqual([2])
  })

  it('disappear while they are used: clear errors, and work goes on when they are back', async () => {
    const outbox = world.listen(world.outbox())
    await outbox.start()
    await world.rows('ALTER SCHEMA {schema} RENAME TO {schema}_away')
    const { code, text } = await failureOf(publishTick(outbox, 1))
    expect(code).toBe('POSTHASTE_SCHEMA_BEHIND')
    expect(text).toContain('Migrate it first')
    await world.until(() => world.log.some(({ error }) => error.includes('lacks tables')))
    await world.rows('ALTER SCHEMA {schema}_away RENAME TO {schema}')
    await publishTick(outbox, 2)
    await world.until(() => world.numbers.includes(2))
    await world.drained()
    expect(world.numbers).toEqual([2])
  })

  it('do not even have the right columns: no try leaves a worker behind that would keep a share of the lanes', async () => {
    await world.migrate()
    const destinations = { pulled: { events: ['tick'] } }
    const outbox = world.listen(world.outbox({ migrate: false, destinations }))
    await publishTick(outbox, 1)
    await outbox.processOnce()
    await world.rows('ALTER TABLE {schema}.lanes RENAME COLUMN epoch TO era')
    for (const attempt of [
      () => outbox.start(),
      () => outbox.processOnce(),
      () => outbox.fetch({ destination: 'pulled' }),
    ]) {
      expect((await failureOf(attempt())).code).toBe('POSTHASTE_SCHEMA_BEHIND')
      expect(await world.rows('SELECT name FROM {schema}.workers WHERE NOT fenced')).toEqual([])
    }
    await world.rows('ALTER TABLE {schema}.lanes RENAME COLUMN era TO epoch')
    await outbox.start()
    await publishTick(outbox, 2)
    await world.until(() => world.numbers.includes(2))
  })

  it('are behind: what is missing and how to get it is named', async () => {
    await world.migrate()
    await world.rows('DELETE FROM {schema}.migrations')
    const { code, text } = await failureOf(world.outbox({ migrate: false }).start())
    expect(code).toBe('POSTHASTE_SCHEMA_BEHIND')
    expect(text).toMatch(/do not exist yet: run posthaste migrate, or outbox\.schema\.migrate\(\)/)
  })

  it('[47] are ahead: a newer version migrated them, and this one does not touch them', async () => {
    await world.migrate()
    await world.rows("INSERT INTO {schema}.migrations VALUES (999, 'from_the_future', now())")
    const { code, text } = await failureOf(world.outbox({ migrate: true }).start())
    expect(code).toBe('POSTHASTE_SCHEMA_AHEAD')
    expect(text).toMatch(/at version 999/)
    // Without migrating it may run beside the newer version: migrations only add.
    const older = world.listen(world.outbox({ migrate: false }))
    await older.start()
    await publishTick(older, 1)
    await world.drained()
  })
})

describe('a role that may not', () => {
  const roles: string[] = []

  afterEach(async () => {
    for (const role of roles.splice(0)) await world.rows(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })

  const roleUrl = async (grants: readonly string[]): Promise<string> => {
    const role = `ph_${randomBytes(6).toString('hex')}`
    await world.rows(`CREATE ROLE ${role} LOGIN PASSWORD '${SECRET}'`)
    roles.push(role)
    for (const grant of grants) await world.rows(`${grant} TO ${role}`)
    return changed({ username: role, password: SECRET })
  }

  it('write is told so at the start, and in flight', async () => {
    await world.migrate()
    const url = await roleUrl([
      'GRANT USAGE ON SCHEMA {schema}',
      'GRANT SELECT ON ALL TABLES IN SCHEMA {schema}',
    ])
    const reader = world.listen(world.outbox({ url, migrate: false }))
    for (const attempt of [() => reader.start(), () => publishTick(reader, 1)]) {
      const { code, text } = await failureOf(attempt())
      expect(code).toBe('POSTHASTE_STORE_READ_ONLY')
      expect(text).toContain('does not allow this to the role')
      expect(text).toContain('permission denied for')
      expect(text).not.toContain(SECRET)
    }
    expect(await reader.inspect.counts()).toEqual([])
  })

  it('register as a worker is told so, also where its destinations are known already', async () => {
    await world.migrate()
    const known = world.listen(world.outbox())
    await known.start()
    await publishTick(known, 1)
    await world.drained()
    const url = await roleUrl([
      'GRANT USAGE ON SCHEMA {schema}',
      'GRANT SELECT ON ALL TABLES IN SCHEMA {schema}',
    ])
    const reader = world.listen(world.outbox({ url, migrate: false }))
    for (const attempt of [() => reader.start(), () => reader.processOnce()]) {
      const { code, text } = await failureOf(attempt())
      expect(code).toBe('POSTHASTE_STORE_READ_ONLY')
      expect(text).toContain('permission denied for')
    }
  })

  it('register as a worker leaves to others what was published meanwhile', async () => {
    await world.migrate()
    const url = await roleUrl([
      'GRANT USAGE ON SCHEMA {schema}',
      'GRANT ALL ON ALL TABLES IN SCHEMA {schema}',
      'GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema}',
    ])
    await world.rows(`REVOKE INSERT ON {schema}.workers FROM ${new URL(url).username}`)
    const helper = world.listen(world.outbox({ url, migrate: false }))
    await publishTick(helper, 1)
    const lock = await world.hand.connect()
    await lock.query(`BEGIN; LOCK TABLE ${world.schema}.workers`)
    const starting = failureOf(helper.start())
    const waiting = `SELECT FROM pg_locks WHERE NOT granted AND relation = '{schema}.workers'::regclass`
    while ((await world.rows(waiting)).length === 0);
    await helper.transaction(async (tx) => {
      await helper.publish(tx, tick(2))
      await lock.query('COMMIT')
      lock.release()
      expect((await starting).code).toBe('POSTHASTE_STORE_READ_ONLY')
    })
    await world.until(
      async () => (await world.rows('SELECT FROM {schema}.deliveries WHERE token IS NOT NULL')).length === 0,
    )
    await world.listen(world.outbox()).start()
    await world.drained()
    expect(world.numbers.toSorted()).toEqual([1, 2])
  })

  it('see the schema is told so', async () => {
    await world.migrate()
    const { code, text } = await failureOf(world.outbox({ url: await roleUrl([]), migrate: false }).start())
    expect(code).toBe('POSTHASTE_STORE_READ_ONLY')
    expect(text).toContain('does not allow this to the role')
  })

  it('make schemas is told so when it migrates', async () => {
    const { code } = await failureOf(world.outbox({ url: await roleUrl([]) }).start())
    expect(code).toBe('POSTHASTE_STORE_READ_ONLY')
  })

  it('connect any more, because all places are taken, waits and goes on', async () => {
    const url = await roleUrl([])
    const role = new URL(url).username
    await world.migrate()
    await world.rows(`GRANT ALL ON SCHEMA {schema} TO ${role}`)
    await world.rows(`GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO ${role}`)
    await world.rows(`GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO ${role}`)
    await world.rows(`ALTER ROLE ${role} CONNECTION LIMIT 0`)
    const outbox = world.listen(world.outbox({ url, migrate: false }))
    const { code, text } = await failureOf(outbox.start())
    expect(code).toBe('POSTHASTE_STORE_UNAVAILABLE')
    expect(text).toContain('no connection left')
    await world.rows(`ALTER ROLE ${role} CONNECTION LIMIT 5`)
    await outbox.start()
    // More writers than connections take turns.
    await Promise.all(Array.from({ length: 12 }, (_, n) => publishTick(outbox, n).catch(() => undefined)))
    await publishTick(outbox, 99)
    await world.until(() => world.numbers.includes(99))
    await outbox.close()
  })
})

describe('a server that goes away', () => {
  it('while it is used: errors say so, nothing is sent twice, and all goes on when it is back', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.listen(world.outbox({ url: proxy.url, hotLeaseMs: 1_000 }))
    await outbox.start()
    await publishTick(outbox, 1)
    await world.drained()
    proxy.refuse()
    proxy.cut()
    await world.until(() => world.log.some(({ error }) => error.includes('cannot be reached')))
    const { code } = await failureOf(publishTick(outbox, 2))
    expect(code).toBe('POSTHASTE_STORE_UNAVAILABLE')
    proxy.pass()
    await publishTick(outbox, 3)
    await world.drained()
    expect(world.numbers).toEqual([1, 3])
    await outbox.close()
  })

  it('before the process stops: stopping takes its time and ends', async () => {
    await using proxy = await startProxy(world.url)
    const outbox = world.listen(world.outbox({ url: proxy.url, drainMs: 100 }))
    await outbox.start()
    proxy.refuse()
    proxy.cut()
    expect(await outbox.stop()).toEqual({ clean: false })
    await outbox.close()
  })

  it('and an outbox that was never started closes quietly', async () => {
    const outbox = createOutbox({
      store: postgresStore({ connectionString: changed({ port: '1' }) }),
    })
    await outbox.close()
  })
})
