import { describe, expect, it } from 'vitest'
import { InvalidOptionError } from '../../core/errors.ts'
import { type PostgresUrlOptions, resolvePostgresOptions } from './options.ts'

const URL = 'postgres://user:secret@localhost/shop'
const resolve = (over: object = {}) =>
  resolvePostgresOptions({ connectionString: URL, ...over } as PostgresUrlOptions)

describe('options of the PostgreSQL store', () => {
  it('have defaults', () => {
    expect(resolve()).toEqual({
      source: { connectionString: URL, poolSize: 10 },
      schema: 'outbox',
      prefix: '',
      layout: 'plain',
      period: 'day',
      prepare: null,
      listen: null,
      queryTimeoutMs: 30_000,
      onStatement: null,
    })
  })

  it('take a pool instead of an address', () => {
    const pool = { connect: () => undefined, on: () => undefined }
    expect(resolve({ connectionString: undefined, pool }).source).toEqual({ pool, poolSize: 4 })
  })

  it('tell a client from a pool', () => {
    const client = { connect: () => undefined, on: () => undefined, connectionParameters: {} }
    expect(() => resolve({ connectionString: undefined, pool: client })).toThrow(/one of its Clients/)
  })

  it.each([
    'postgres://u:ab@secret/x@localhost:5432/shop',
    'postgres://u:p@secret#x@localhost/shop',
    'postgres://u:p@secret?x@localhost/shop',
    'postgres://u:p@/secret@localhost/shop',
    'postgres://u:p@secret?x=1@localhost/shop',
    'postgres://u:p%ff@localhost/shop',
  ])('refuse %s, which a driver would misread', (connectionString) => {
    expect(() => resolve({ connectionString })).toThrow(/encode special characters of the password/)
  })

  it.each([
    'postgres://u@/shop?host=/run/postgresql',
    'postgres://ada%40corp:a@b@localhost/shop',
    'postgres://localhost/shop?application_name=me@here',
    'postgres://localhost/shop?sslrootcert=/home/ada@corp/ca.crt',
    'postgres://localhost/shop?sslrootcert=certs%40corp/ca.crt',
  ])('take %s', (connectionString) => {
    expect(resolve({ connectionString }).source).toMatchObject({ connectionString })
  })

  const hostile = ['', '1x', 'a"b', "a'b", 'a;b', 'a b', 'a\0', 'a\n', 'a.b', 'ä', 'a'.repeat(41), 7, null]

  it.each(hostile)('refuse the schema %j', (schema) => {
    expect(() => resolve({ schema: schema ?? 0 })).toThrow(InvalidOptionError)
  })

  it.each(hostile.filter((name) => name !== ''))('refuse the prefix %j', (prefix) => {
    expect(() => resolve({ prefix: prefix ?? 0 })).toThrow(InvalidOptionError)
  })

  it.each([
    { connectionString: undefined },
    { pool: { connect: () => undefined, on: () => undefined } },
    { connectionString: undefined, pool: {} },
    { connectionString: undefined, pool: { connect: () => undefined, on: () => undefined }, poolSize: 1 },
    { connectionString: 'mysql://x' },
    { connectionString: '' },
    { schema: 'pg_toast' },
    { schema: 'information_schema' },
    { layout: 'heap' },
    { period: 'week' },
    { prepare: 'yes' },
    { listen: true },
    { listen: { connectionString: 'x' } },
    { listen: { url: URL } },
    { poolSize: 1 },
    { queryTimeoutMs: 0 },
    { onStatement: 'log' },
    { shcema: 'x' },
  ])('refuse %j', (over) => {
    expect(() => resolve(over)).toThrow(InvalidOptionError)
  })

  it('never repeat an address, which may hold a password', () => {
    const refused = (() => {
      try {
        return resolve({ connectionString: 'mysql://user:hunter2@localhost/x' })
      } catch (error) {
        return error as InvalidOptionError
      }
    })()
    expect(JSON.stringify([String(refused), (refused as InvalidOptionError).detail])).not.toContain('hunter2')
  })
})
