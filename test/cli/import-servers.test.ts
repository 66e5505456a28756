/** `posthaste import` from the tables of other outboxes, on the databases that they are made for. */
import { randomBytes } from 'node:crypto'
import mysql from 'mysql2/promise'
import pg from 'pg'
import PgBoss from 'pg-boss-10'
import { describe, expect, it, onTestFinished } from 'vitest'
import { serviceUrls } from '../../scripts/services/index.ts'
import { createFolder, type Ended, type Folder, type Running } from './cli.ts'

const UUID = '0192f0c1-2c1a-7b1e-8c3d-00000000000'
const LATER = Date.parse('2199-01-01T00:00:00Z')

interface Server {
  readonly folder: Folder
  /** Of the other outbox, and of ours. */
  readonly name: string
  readonly client: pg.Client
  import(...args: readonly string[]): Promise<Ended>
  start(...args: readonly string[]): Running
  events(): Promise<readonly Readonly<Record<string, unknown>>[]>
}

const onPostgres = async (ddl: (schema: string) => string): Promise<Server> => {
  const { postgres: url } = await serviceUrls(['postgres'])
  const name = `import_${randomBytes(6).toString('hex')}`
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  onTestFinished(async () => {
    await client.query(`DROP SCHEMA IF EXISTS ${name} CASCADE; DROP SCHEMA IF EXISTS ${name}_ours CASCADE`)
    await client.end()
  })
  await client.query(`CREATE SCHEMA ${name}; ${ddl(name)}`)
  const folder = createFolder()
  const place = ['--url', url, '--schema', `${name}_ours`]
  expect((await folder.run(['migrate', ...place])).code).toBe(0)
  return {
    folder,
    name,
    client,
    import: (...args) => folder.run(['import', '--json', ...place, ...args]),
    start: (...args) => folder.start(['import', '--json', ...place, ...args]),
    events: async () =>
      (
        await client.query(
          `SELECT e.id, e.type, e.key, e.payload::text AS payload, e.headers, e.tenant_id, e.aggregate_type, e.occurred_at, d.status, d.available_at
           FROM ${name}_ours.events e JOIN ${name}_ours.deliveries d ON d.event_id = e.id ORDER BY d.seq`,
        )
      ).rows,
  }
}

describe('on PostgreSQL', () => {
  it('moves a Python queue: UUIDs, delays, and what a dead worker had', async () => {
    const world = await onPostgres(
      (
        schema,
      ) => `CREATE TABLE ${schema}.events (id UUID PRIMARY KEY, topic TEXT NOT NULL, payload JSONB NOT NULL,
        status TEXT NOT NULL DEFAULT 'pending', attempt_count INT NOT NULL DEFAULT 0,
        next_attempt_at TIMESTAMPTZ NOT NULL DEFAULT now(), created_at TIMESTAMPTZ NOT NULL DEFAULT now());
      INSERT INTO ${schema}.events VALUES
        ('${UUID}1', 'Ready', '{"n": 1, "big": 12345678901234567890}', 'pending', 0, now(), '2026-01-01T00:00:01+02'),
        ('${UUID}2', 'Ready', '{"n": 2}', 'pending', 0, '2199-01-01T00:00:00Z', '2026-01-01T00:00:02Z'),
        ('${UUID}3', 'Ready', '{"n": 3}', 'pending', 4, '2199-01-01T00:00:00Z', '2026-01-01T00:00:03Z'),
        ('${UUID}4', 'Ready', '{"n": 4}', 'processing', 1, now(), '2025-01-01T00:00:00Z'),
        ('${UUID}5', 'Ready', '{"n": 5}', 'processed', 1, now(), '2025-01-01T00:00:00Z')`,
    )
    const from = ['--from', 'python-queue', '--source', `${world.name}.events`]
    expect(await world.import(...from, '--dry-run')).toMatchObject({
      code: 1,
      json: { unfinished: 3, inFlight: 1, invalid: 0, sample: [{ id: `${UUID}1`, dueAt: null }, {}, {}] },
    })
    const refused = await world.import(...from)
    expect(refused).toMatchObject({ code: 6, json: { error: { code: 'POSTHASTE_CONFLICT' } } })
    expect(refused.stderr).toContain('Stop the old workers')
    expect(await world.import(...from, '--in-flight')).toMatchObject({ code: 0, json: { moved: 4 } })
    const events = await world.events()
    expect(events.map(({ id }) => id)).toEqual([4, 1, 2, 3].map((n) => `${UUID}${n}`))
    expect(events[1]).toMatchObject({
      type: 'Ready',
      key: null,
      payload: '{"n": 1, "big": 12345678901234567890}',
    })
    expect(new Date(events[1]?.occurred_at as Date).toISOString()).toBe('2025-12-31T22:00:01.000Z')
    expect(events.map(({ status }) => status)).toEqual([0, 0, 5, 0])
    expect(new Date(events[2]?.available_at as Date).getTime()).toBe(LATER)
    const states = await world.client.query(`SELECT DISTINCT status FROM ${world.name}.events`)
    expect(states.rows).toEqual([{ status: 'processed' }])
    // Put back by hand, it is known, and not published twice.
    await world.client.query(`UPDATE ${world.name}.events SET status = 'pending' WHERE id = '${UUID}1'`)
    const known = await world.import(...from)
    expect(known).toMatchObject({ code: 6, stderr: expect.stringContaining('in the outbox already') })
    expect(await world.import(...from, '--skip-known')).toMatchObject({
      code: 0,
      json: { moved: 0, known: 1 },
    })
    expect(await world.events()).toHaveLength(4)
  })

  it.each([
    ['10 and later', 'start_after', 'created_on', 'completed_on', 'retry_count'],
    ['9 and earlier', 'startafter', 'createdon', 'completedon', 'retrycount'],
  ])('moves the jobs of pg-boss %s', async (_, startAfter, createdOn, completedOn, retryCount) => {
    const world = await onPostgres(
      (
        schema,
      ) => `CREATE TYPE ${schema}.job_state AS ENUM ('created', 'retry', 'active', 'completed', 'cancelled', 'failed');
      CREATE TABLE ${schema}.job (id uuid NOT NULL DEFAULT gen_random_uuid(), name text NOT NULL, data jsonb,
        state ${schema}.job_state NOT NULL DEFAULT 'created', ${retryCount} int NOT NULL DEFAULT 0, singleton_key text,
        ${startAfter} timestamptz NOT NULL DEFAULT now(), ${createdOn} timestamptz NOT NULL DEFAULT now(),
        ${completedOn} timestamptz, PRIMARY KEY (name, id)) PARTITION BY LIST (name);
      CREATE TABLE ${schema}.job_common PARTITION OF ${schema}.job DEFAULT;
      INSERT INTO ${schema}.job (name, data, state, ${createdOn}, ${startAfter}, ${retryCount}) VALUES
        ('mail', '{"n":1}', 'created', '2026-01-01', '2026-01-01', 0), ('mail', NULL, 'retry', '2026-01-02', '2199-01-01', 1),
        ('mail', '{"n":3}', 'created', '2026-01-03', '2199-01-01T00:00:00Z', 0), ('mail', '{}', 'failed', '2026-01-01', now(), 2),
        ('mail', '{}', 'completed', '2026-01-01', now(), 0), ('__pgboss__cron', '{}', 'created', '2026-01-01', now(), 0)`,
    )
    const from = ['--from', 'pg-boss', '--source', `${world.name}.job`]
    expect(await world.import(...from)).toMatchObject({ code: 0, json: { moved: 3, dead: 1, unfinished: 0 } })
    const events = await world.events()
    expect(events.map(({ payload, status }) => [payload, status])).toEqual([
      ['{"n": 1}', 0],
      ['null', 0],
      ['{"n": 3}', 5],
    ])
    const done = await world.client.query(
      `SELECT COUNT(*)::int AS n FROM ${world.name}.job WHERE state = 'completed' AND ${completedOn} IS NOT NULL`,
    )
    expect(done.rows).toEqual([{ n: 3 }])
    expect(await world.import(...from, '--dead')).toMatchObject({ code: 0, json: { moved: 1, dead: 0 } })
  })

  it('moves the jobs that pg-boss itself has stored, and leaves it none to work on', async () => {
    const world = await onPostgres(() => '')
    const { postgres: url } = await serviceUrls(['postgres'])
    const boss = new PgBoss({ connectionString: url, schema: world.name, supervise: false, schedule: false })
    await boss.start()
    onTestFinished(() => boss.stop({ graceful: false, wait: true }))
    await boss.createQueue('mail')
    await boss.send('mail', { n: 0 }, { retryLimit: 0, priority: 1 })
    const [failing] = await boss.fetch('mail')
    await boss.fail('mail', failing?.id ?? '', new Error('no such address'))
    await boss.send('mail', { n: 1 }, { singletonKey: 'a' })
    await boss.send('mail', { n: 2 }, { startAfter: new Date(LATER), singletonKey: 'b' })
    await boss.send('mail', { n: 3 }, { priority: 1 })
    const [running] = await boss.fetch('mail')
    const from = ['--from', 'pg-boss', '--source', `${world.name}.job`, '--key', 'singleton_key']
    expect(await world.import(...from)).toMatchObject({
      code: 6,
      json: { error: { code: 'POSTHASTE_CONFLICT' } },
    })
    await boss.complete('mail', running?.id ?? '')
    expect(await world.import(...from)).toMatchObject({ code: 0, json: { moved: 2, dead: 1, unfinished: 0 } })
    expect((await world.events()).map(({ key, payload, status }) => [key, payload, status])).toEqual([
      ['a', '{"n": 1}', 0],
      ['b', '{"n": 2}', 5],
    ])
    expect(await boss.fetch('mail')).toEqual([])
    expect(await boss.getQueueSize('mail')).toBe(0)
    expect(await world.import(...from, '--dead')).toMatchObject({ code: 0, json: { moved: 1, dead: 0 } })
  })

  it('waits for a row that another worker has instead of passing over it, and moves by idempotency key', async () => {
    const world = await onPostgres(
      (
        schema,
      ) => `CREATE TABLE ${schema}.outbox (id bigserial PRIMARY KEY, topic text, key text, payload_json text,
        idempotency_key text, status text NOT NULL DEFAULT 'pending', retry_count int NOT NULL DEFAULT 0, last_error text,
        next_attempt_at timestamptz NOT NULL DEFAULT now(), published_at timestamptz, created_at timestamp NOT NULL);
      INSERT INTO ${schema}.outbox (topic, key, payload_json, idempotency_key, status, created_at) VALUES
        ('t', 'a', '{"n":1}', 'i1', 'pending', '2026-01-01 00:00:01'), ('t', 'a', '{"n":2}', 'i2', 'failed', '2026-01-01 00:00:02'),
        ('t', 'a', '{"n":3}', 'i3', 'pending', '2026-01-01 00:00:03')`,
    )
    const from = ['--from', 'kafka-module', '--source', `${world.name}.outbox`]
    await world.client.query('BEGIN')
    await world.client.query(`SELECT * FROM ${world.name}.outbox WHERE id = 1 FOR UPDATE SKIP LOCKED`)
    const running = world.import(...from, '--batch', '1')
    const waiting = `SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%${world.name}%FOR UPDATE%'`
    // Nothing announces that a lock is waited for, so the server is asked until it says so. Within a transaction the view
    // stands still unless it is cleared.
    while ((await world.client.query(waiting)).rows.length === 0)
      await world.client.query('SELECT pg_stat_clear_snapshot()')
    expect(await world.events()).toEqual([])
    // The old worker finishes what it had.
    await world.client.query(`UPDATE ${world.name}.outbox SET status = 'published' WHERE id = 1`)
    await world.client.query('COMMIT')
    expect(await running).toMatchObject({ code: 0, json: { moved: 2, unfinished: 0 } })
    const events = await world.events()
    expect(events.map(({ key, payload }) => [key, payload])).toEqual([
      ['a', '{"n":2}'],
      ['a', '{"n":3}'],
    ])
    expect(events[0]?.headers).toEqual({ 'imported-id': '2' })
    expect(new Date(events[0]?.occurred_at as Date).toISOString()).toBe('2026-01-01T00:00:02.000Z')
  })

  it('keeps the order of numbers, with two of them at once and one that is killed', async () => {
    const world = await onPostgres(
      (
        schema,
      ) => `CREATE TABLE ${schema}.messages (id bigint PRIMARY KEY, key text, sent boolean NOT NULL DEFAULT false);
      INSERT INTO ${schema}.messages SELECT n, 'k' || n % 3 FROM generate_series(1, 1200) n;
      CREATE FUNCTION ${schema}.tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY ${schema}; RETURN NULL; END';
      CREATE TRIGGER moved AFTER UPDATE ON ${schema}.messages EXECUTE FUNCTION ${schema}.tell()`,
    )
    const mapping = [
      ...[
        '--source',
        `${world.name}.messages`,
        '--id',
        'id',
        '--type-is',
        'n',
        '--payload',
        'id',
        '--key',
        'key',
      ],
      ...['--pending', 'sent=false', '--done', 'sent=true', '--batch', '7'],
    ]
    const left = async (): Promise<number> =>
      (await world.client.query(`SELECT id FROM ${world.name}.messages WHERE NOT sent`)).rows.length
    await world.client.query(`LISTEN ${world.name}`)
    const inTheMiddle = new Promise<void>((resolve) => {
      let batches = 0
      world.client.on('notification', () => {
        batches += 1
        if (batches === 8) resolve()
      })
    })
    const killed = world.start(...mapping)
    await inTheMiddle
    killed.child.kill('SIGKILL')
    await killed.ended
    expect(await world.events()).toHaveLength(1_200 - (await left()))
    const both = await Promise.all([world.import(...mapping), world.import(...mapping)])
    expect(both.map(({ code }) => code)).toEqual([0, 0])
    const numbers = (await world.events()).map(({ payload }) => Number(payload))
    expect(numbers).toEqual(Array.from({ length: 1_200 }, (_, index) => index + 1))
  })

  it('moves the outbox of Protean, and deletes if told so', async () => {
    const world = await onPostgres(
      (
        schema,
      ) => `CREATE TABLE ${schema}.outbox (id varchar PRIMARY KEY, message_id varchar, stream_name varchar, type varchar,
        data json, created_at timestamp, published_at timestamp, retry_count int, status varchar, correlation_id varchar,
        trace_id varchar, sequence_number int, locked_by varchar, locked_until timestamp);
      INSERT INTO ${schema}.outbox (id, message_id, stream_name, type, data, created_at, retry_count, status, correlation_id) VALUES
        ('${UUID}2', 'm2', 'shop::order-1', 'Shop.OrderPlaced.v1', '{"n":2}', '2026-01-02', 0, 'pending', NULL),
        ('${UUID}1', 'm1', 'shop::order-1', 'Shop.OrderPlaced.v1', '{"n":1}', '2026-01-01', 1, 'failed', 'c1'),
        ('${UUID}3', 'm3', 'shop::order-1', 'Shop.OrderPlaced.v1', '{"n":3}', '2026-01-01', 3, 'abandoned', NULL)`,
    )
    const from = ['--from', 'protean', '--source', `${world.name}.outbox`, '--delete']
    expect(await world.import(...from)).toMatchObject({ code: 0, json: { moved: 2, dead: 1 } })
    const events = await world.events()
    expect(events.map(({ id, key }) => [id, key])).toEqual([
      [`${UUID}1`, 'shop::order-1'],
      [`${UUID}2`, 'shop::order-1'],
    ])
    expect(events[0]?.headers).toEqual({ 'message-id': 'm1', 'correlation-id': 'c1' })
    expect((await world.client.query(`SELECT id FROM ${world.name}.outbox`)).rows).toEqual([
      { id: `${UUID}3` },
    ])
  })
})

describe.each(['mysql', 'mariadb'] as const)('on %s', (server) => {
  it('moves a Go library’s table and a Java framework’s', async () => {
    const url = (await serviceUrls([server]))[server]
    const prefix = `imp_${randomBytes(5).toString('hex')}_`
    const client = await mysql.createConnection({ uri: url, multipleStatements: true, timezone: 'Z' })
    onTestFinished(async () => {
      const [rows] = await client.query(`SHOW FULL TABLES LIKE '${prefix.replaceAll('_', '\\_')}%'`)
      for (const row of rows as Record<string, string>[]) {
        const [name, type] = Object.values(row)
        await client.query(`DROP ${type === 'VIEW' ? 'VIEW' : 'TABLE'} \`${name}\``)
      }
      await client.end()
    })
    const hex = (n: number): string => `${UUID}${n}`.replaceAll('-', '')
    await client.query(`SET time_zone = '+05:00'; CREATE TABLE ${prefix}go (id BINARY(16) NOT NULL, aggregate_type VARCHAR(128) NOT NULL,
        aggregate_id VARCHAR(128) NOT NULL, event_type VARCHAR(128) NOT NULL, payload JSON NOT NULL, headers JSON NULL,
        status SMALLINT NOT NULL DEFAULT 0, attempt_count INT NOT NULL DEFAULT 0, last_error VARCHAR(1024) NULL,
        created_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), processed_at TIMESTAMP(6) NULL, PRIMARY KEY (id));
      INSERT INTO ${prefix}go (id, aggregate_type, aggregate_id, event_type, payload, headers, status, created_at) VALUES
        (X'${hex(2)}', 'order', 'o1', 'order.paid', '{"n": 2}', NULL, 0, '2026-01-01 05:00:02'),
        (X'${hex(1)}', 'order', 'o1', 'order.placed', '{"n": 1, "t": "ä😀"}', '{"trace": "x", "n": 7}', 0, '2026-01-01 05:00:01'),
        (X'${hex(3)}', 'order', 'o1', 'order.lost', '{}', NULL, -1, NOW()), (X'${hex(4)}', 'order', 'o1', 'order.done', '{}', NULL, 1, NOW());
      CREATE TABLE ${prefix}bin (id BINARY(16) PRIMARY KEY, aggregate_type VARCHAR(128), aggregate_id VARCHAR(128), event_type VARCHAR(128),
        payload LONGBLOB, headers JSON, status SMALLINT, attempt_count INT, created_at TIMESTAMP(6) NULL, processed_at TIMESTAMP(6) NULL);
      INSERT INTO ${prefix}bin VALUES (X'${hex(5)}', 'order', 'o2', 'order.raw', X'00FF10', NULL, 0, 0, NULL, NULL);
      CREATE TABLE ${prefix}java (event_id VARCHAR(36) PRIMARY KEY, event_type VARCHAR(128) NOT NULL, aggregate_type VARCHAR(64),
        aggregate_id VARCHAR(128), tenant_id VARCHAR(64), payload JSON NOT NULL, headers JSON, status TINYINT NOT NULL,
        attempts INT NOT NULL DEFAULT 0, available_at DATETIME(6) NOT NULL, created_at DATETIME(6) NOT NULL, done_at DATETIME(6), last_error TEXT);
      INSERT INTO ${prefix}java VALUES
        ('01ARZ3NDEKTSV4RRFFQ69G5FAV', 'UserCreated', 'User', '1', 't1', '{"n": 1}', '{"a": "b"}', 0, 0, '2026-01-01', '2026-01-01 00:00:01.5', NULL, NULL),
        ('01ARZ3NDEKTSV4RRFFQ69G5FAW', 'UserCreated', NULL, NULL, NULL, '{"n": 2}', NULL, 2, 3, '2199-01-01', '2026-01-01 00:00:02', NULL, 'x'),
        ('01ARZ3NDEKTSV4RRFFQ69G5FAX', 'UserCreated', NULL, NULL, NULL, '{"n": 3}', NULL, 1, 1, '2026-01-01', '2026-01-01', NULL, NULL)`)
    const folder = createFolder()
    const place = ['--url', url, '--prefix', `${prefix}ours_`]
    expect((await folder.run(['migrate', ...place])).code).toBe(0)
    const moved = async (from: string, table: string, expected: object): Promise<void> =>
      expect(
        await folder.run(['import', '--json', ...place, '--from', from, '--source', `${prefix}${table}`]),
      ).toMatchObject({ code: 0, json: expected })
    await moved('go-library', 'go', { moved: 2, dead: 1 })
    await moved('go-library', 'bin', { moved: 1 })
    await moved('java-framework', 'java', { moved: 2, dead: 0 })
    await moved('java-framework', 'java', { moved: 0 })
    const [rows] = await client.query(
      `SELECT LOWER(HEX(e.id)) AS id, e.type, e.\`key\`, e.payload, e.headers, e.tenant_id, e.content_type,
         CAST(e.occurred_at AS CHAR) AS occurred_at, d.status
       FROM ${prefix}ours_events e JOIN ${prefix}ours_deliveries d ON d.event_id = e.id ORDER BY d.seq`,
    )
    const events = rows as Record<string, unknown>[]
    const text = (value: unknown): string => (Buffer.isBuffer(value) ? value.toString() : String(value))
    const json = (value: unknown): unknown =>
      JSON.parse(text(typeof value === 'string' || Buffer.isBuffer(value) ? value : JSON.stringify(value)))
    expect(events.map(({ type, key, status }) => [type, key, status])).toEqual([
      ['order.placed', 'o1', 0],
      ['order.paid', 'o1', 0],
      ['order.raw', 'o2', 0],
      ['UserCreated', '1', 0],
      ['UserCreated', null, 0],
    ])
    expect(events.slice(0, 3).map(({ id }) => id)).toEqual([hex(1), hex(2), hex(5)])
    expect(json(events[0]?.payload)).toEqual({ n: 1, t: 'ä😀' })
    expect(json(events[0]?.headers)).toEqual({ trace: 'x', n: '7' })
    expect(events[2]).toMatchObject({ content_type: 'application/octet-stream' })
    expect(json(events[3]?.headers)).toEqual({ a: 'b', 'imported-id': '01ARZ3NDEKTSV4RRFFQ69G5FAV' })
    expect(events[3]).toMatchObject({ tenant_id: 't1' })
    // An instant whatever the zone of a session, and a time without a zone in UTC.
    expect([0, 1, 3].map((index) => text(events[index]?.occurred_at).slice(0, 21))).toEqual([
      '2026-01-01 00:00:01.0',
      '2026-01-01 00:00:02.0',
      '2026-01-01 00:00:01.5',
    ])
    const numbers = Array.from({ length: 12 }, (_, index) => index + 1)
    await client.query(`CREATE TABLE ${prefix}num (id BIGINT PRIMARY KEY, sent INT NOT NULL DEFAULT 0);
      INSERT INTO ${prefix}num (id) VALUES ${numbers.map((n) => `(${n})`).join(', ')}`)
    const mapping = [
      '--id',
      'id',
      '--type-is',
      'n',
      '--payload',
      'id',
      '--pending',
      'sent=0',
      '--done',
      'sent=1',
    ]
    const counted = await folder.run(['import', '--json', ...place, '--source', `${prefix}num`, ...mapping])
    expect(counted).toMatchObject({ code: 0, json: { moved: 12 } })
    const [inOrder] = await client.query(
      `SELECT CAST(payload AS CHAR) AS n FROM ${prefix}ours_events WHERE type = 'n' ORDER BY seq`,
    )
    expect((inOrder as { n: string }[]).map(({ n }) => Number(n))).toEqual(numbers)
  })
})
