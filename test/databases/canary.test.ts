/** No secret in anything that the library says: on PostgreSQL. test/observability/canary.test.ts has the cases. */
import pg from 'pg'
import { expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { CANARY, expectNoCanary, faces, loggers, singAlong } from '../observability/canary.ts'
import { newSchema } from '../stores/postgres-harness.ts'
import { postgresUrl } from '../stores/servers.ts'

it('a secret in payload, headers, errors and password is in no log, metric, span or error', async () => {
  const client = new pg.Client(postgresUrl())
  await client.connect()
  const schema = newSchema()
  const role = `canary_${schema}`
  await client.query(`CREATE ROLE ${role} LOGIN SUPERUSER PASSWORD '${CANARY}'`)
  const url = new URL(postgresUrl())
  url.username = role
  url.password = CANARY
  try {
    const store = postgresStore({ connectionString: url.href, schema })
    const setUp = createOutbox({
      store: postgresStore({ connectionString: url.href, schema }),
      migrate: true,
    })
    await setUp.inspect.counts()
    await setUp.close()
    expectNoCanary(await singAlong(store as never))
  } finally {
    await client.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
    await client.query(`DROP ROLE ${role}`)
    await client.end()
  }
})

it('a wrong password is reported without it', async () => {
  const url = new URL(postgresUrl())
  url.password = CANARY
  url.username = 'nobody-of-that-name'
  const { logger, logs } = loggers()
  const outbox = createOutbox({ store: postgresStore({ connectionString: url.href }), logger })
  const errors: string[] = []
  await outbox.start().catch((error: unknown) => errors.push(...faces(error)))
  await outbox.close()
  expect(errors.join()).toContain('POSTHASTE_STORE_UNAVAILABLE')
  for (const text of [...logs, ...errors]) expect(text).not.toContain(CANARY)
})
