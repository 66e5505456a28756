/** What goes through a database: whatever is published is what comes out, byte for byte, or is refused before any SQL. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import mysql from 'mysql2/promise'
import pg from 'pg'
import { createOutbox, type Draft, type EventRecord, type Outbox, type Store } from '../../src/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { isRefusal, outcomeOf, type Property, property } from '../property.ts'
import { hostileText, hostileValue, jsonValue, plainText } from '../values.ts'

export type FuzzedStore = 'sqlite' | 'postgres' | 'mysql' | 'mariadb'

interface Place {
  store(prefix: string): Store
  close(): Promise<void>
}

const sqlitePlace = (): Place => ({
  store: (prefix) => sqliteStore({ file: ':memory:', prefix }) as unknown as Store,
  close: async () => undefined,
})

/** In a database of its own: names of all kinds are tried, and what they name is dropped. */
const ownDatabase = (url: string): { readonly name: string; readonly url: string } => {
  const name = `fuzz_${randomBytes(6).toString('hex')}`
  const own = new URL(url)
  own.pathname = `/${name}`
  return { name, url: own.href }
}

const postgresPlace = async (server: string): Promise<Place> => {
  const { name, url } = ownDatabase(server)
  const pool = new pg.Pool({ connectionString: server, max: 1 })
  await pool.query(`CREATE DATABASE ${name}`)
  return {
    // One name for both, so that schemas are tried as well.
    store: (prefix) =>
      postgresStore({ connectionString: url, schema: prefix, prefix, poolSize: 2 }) as unknown as Store,
    async close() {
      await pool.query(`DROP DATABASE ${name} WITH (FORCE)`)
      await pool.end()
    },
  }
}

const mysqlPlace = async (server: string): Promise<Place> => {
  const { name, url } = ownDatabase(server)
  const pool = mysql.createPool({ uri: server, connectionLimit: 1 })
  await pool.query(`CREATE DATABASE ${name}`)
  return {
    store: (prefix) => mysqlStore({ connectionString: url, prefix, poolSize: 2 }) as unknown as Store,
    async close() {
      await pool.query(`DROP DATABASE ${name}`)
      await pool.end()
    },
  }
}

const placeOf = async (kind: FuzzedStore, url: string): Promise<Place> => {
  if (kind === 'sqlite') return sqlitePlace()
  return kind === 'postgres' ? await postgresPlace(url) : await mysqlPlace(url)
}

const openOutbox = async (store: Store): Promise<Outbox<unknown>> => {
  const outbox = createOutbox({
    store,
    destinations: { sink: { events: ['*'] } },
    serve: [],
    maintain: false,
  })
  await outbox.schema.migrate()
  return outbox as unknown as Outbox<unknown>
}

const bytes = fc.uint8Array({ maxLength: 200 })
const time = fc.date({ min: new Date(0), max: new Date('2200-01-01'), noInvalidDate: true })

/** Good in all of its fields; then some are made bad. */
const goodDraft = fc.record(
  {
    type: fc.stringMatching(/^[a-z][a-z.]{0,20}[a-z]$/),
    payload: fc.oneof(jsonValue, hostileText),
    key: fc.oneof(plainText, fc.constant(null)),
    headers: fc.dictionary(fc.stringMatching(/^[a-z-]{1,12}$/), plainText, { maxKeys: 4 }),
    aggregateType: plainText,
    aggregateId: plainText,
    tenantId: plainText,
    idempotencyKey: plainText,
    occurredAt: time,
    version: fc.integer({ min: 1, max: 32_767 }),
    id: fc.uuid(),
  },
  { requiredKeys: ['type', 'payload'] },
)

const binaryDraft = fc.tuple(goodDraft, bytes).map(([draft, payload]) => ({
  ...draft,
  payload,
  contentType: 'application/octet-stream',
}))

const jsonDraft = fc
  .tuple(goodDraft, fc.json())
  .map(([{ payload: _, ...draft }, json]) => ({ ...draft, json }))

const FIELDS = [
  'type',
  'payload',
  'key',
  'headers',
  'aggregateType',
  'aggregateId',
  'tenantId',
  'idempotencyKey',
  'occurredAt',
  'version',
  'id',
  'delayMs',
  'dueAt',
  'contentType',
  'json',
  '__proto__',
  'typo',
]

const badDraft = fc
  .tuple(goodDraft, fc.constantFrom(...FIELDS), fc.oneof(hostileValue, hostileText))
  .map(([draft, field, value]) => Object.defineProperty({ ...draft }, field, { value, enumerable: true }))

type Given = Readonly<Record<string, unknown>>

const drafts: fc.Arbitrary<Given> = fc.oneof(
  goodDraft,
  binaryDraft,
  jsonDraft,
  badDraft,
) as fc.Arbitrary<Given>

const assertSame = (given: Given, stored: EventRecord): void => {
  const fields = ['type', 'key', 'aggregateType', 'aggregateId', 'tenantId'] as const
  for (const field of fields)
    if (typeof given[field] === 'string') assert.equal(stored[field], given[field], field)
  if (typeof given.id === 'string') assert.equal(stored.id, given.id.toLowerCase())
  if (given.headers !== undefined && given.headers !== null)
    assert.deepEqual({ ...stored.headers }, { ...(given.headers as object) })
  if (given.occurredAt instanceof Date) assert.equal(stored.occurredAtMs, given.occurredAt.getTime())
  if (typeof given.json === 'string') assert.equal(stored.data, given.json)
  else if (ArrayBuffer.isView(given.payload)) {
    const { buffer, byteOffset, byteLength } = given.payload
    assert.deepEqual(
      Buffer.from(stored.data as Uint8Array),
      Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength),
    )
  } else assert.equal(stored.data, JSON.stringify(given.payload))
}

/** A refusal must leave the transaction good, so something ordinary is published after it in the same one. */
const publishAndRead = async (outbox: Outbox<unknown>, given: Given): Promise<'accepted' | 'refused'> => {
  let refused = false
  const after = { type: 'after', payload: { ok: true } }
  const [id, next] = await outbox.transaction(async (tx) => {
    const published = await outbox.publish(tx, given as unknown as Draft).catch((error: unknown) => {
      refused = isRefusal(error)
      return null
    })
    return [published, await outbox.publish(tx, after)] as const
  })
  const stored = await outbox.inspect.event(next)
  assert.equal(stored?.event.data, '{"ok":true}')
  if (refused || id === null) return 'refused'
  const found = await outbox.inspect.event(id)
  assert.ok(found, 'what was accepted is stored')
  assertSame(given, found.event)
  return 'accepted'
}

const events = (kind: FuzzedStore, url: string): Property =>
  property(`events on ${kind}`, kind === 'sqlite' ? 0.5 : 0.1, async () => {
    const place = await placeOf(kind, url)
    const outbox = await openOutbox(place.store('fuzz'))
    let count = 0
    return {
      values: drafts,
      // A key or id that came before stands for the earlier event, so each draft has its own.
      check: (given: Given) => {
        count += 1
        const { id: _, ...rest } = given
        const own = typeof given.id === 'string' && count > 1 ? rest : given
        const once = own.idempotencyKey
        const unique =
          typeof once === 'string' && once.length < 100 && once !== ''
            ? { ...own, idempotencyKey: `${once}${count}` }
            : own
        return publishAndRead(outbox, '__proto__' in Object.getOwnPropertyDescriptors(given) ? given : unique)
      },
      async [Symbol.asyncDispose]() {
        await outbox.close()
        await place.close()
      },
    }
  })

const identifiers = fc.oneof(
  fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_]{0,39}$/),
  fc.constantFrom(
    'select',
    'order',
    'user',
    'table',
    'Group',
    'public',
    'pg_x',
    'sqlite_',
    'x'.repeat(40),
    'x'.repeat(41),
  ),
  fc.constantFrom('a"b', 'a`b', "a'b", 'a.b', 'a;b', 'a b', 'ä', '1a', '', 'a\u0000', 'a\n', '--', 'a-b'),
  hostileText,
  hostileValue,
)

/** Accepted names must really work: tables are made, an event goes in and comes out. */
const tableNames = (kind: FuzzedStore, url: string): Property =>
  property(`table names on ${kind}`, kind === 'sqlite' ? 0.1 : 0.01, async () => {
    const place = await placeOf(kind, url)
    return {
      values: identifiers,
      check: async (name: unknown) => {
        let outbox: Outbox<unknown> | null = null
        try {
          return await outcomeOf(
            async () => {
              outbox = await openOutbox(place.store(name as string))
              return outbox
            },
            async (opened) => {
              const outcome = await publishAndRead(opened, { type: 'named', payload: { name } })
              assert.equal(outcome, 'accepted')
            },
          )
        } finally {
          await (outbox as Outbox<unknown> | null)?.close()
        }
      },
      [Symbol.asyncDispose]: () => place.close(),
    }
  })

const QUERY_NAMES = [
  'destination',
  'status',
  'type',
  'key',
  'tenantId',
  'limit',
  'after',
  'order',
  'olderThanMs',
  'newerThanMs',
  'typo',
]

/** Questions about anything at all: an answer, or a refusal. */
const questions = (kind: FuzzedStore, url: string): Property =>
  property(`questions on ${kind}`, kind === 'sqlite' ? 0.3 : 0.05, async () => {
    const place = await placeOf(kind, url)
    const outbox = await openOutbox(place.store('fuzz'))
    const query = fc.oneof(
      hostileValue,
      fc.dictionary(fc.constantFrom(...QUERY_NAMES), fc.oneof(hostileValue, plainText, fc.nat()), {
        maxKeys: 2,
      }),
    )
    return {
      values: fc.tuple(query, fc.oneof(fc.uuid(), hostileValue)),
      check: ([asked, id]: readonly [unknown, unknown]) =>
        outcomeOf(
          async () => {
            assert.equal(await outbox.inspect.event(id as string), null)
            return await outbox.inspect.list(asked as never)
          },
          (page) => assert.ok(Array.isArray(page.deliveries)),
        ),
      async [Symbol.asyncDispose]() {
        await outbox.close()
        await place.close()
      },
    }
  })

export const storeProperties = (kind: FuzzedStore, url = ''): readonly Property[] => [
  events(kind, url),
  tableNames(kind, url),
  questions(kind, url),
]
