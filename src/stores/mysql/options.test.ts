import mysql from 'mysql2/promise'
import { describe, expect, it } from 'vitest'
import { mysqlStore } from './index.ts'
import { resolveMysqlOptions } from './options.ts'

const connectionString = 'mysql://me:secret@127.0.0.1/shop'

describe('options of the MySQL store', () => {
  it('have defaults', () => {
    expect(resolveMysqlOptions({ connectionString })).toEqual({
      source: { connectionString, poolSize: 10 },
      prefix: 'outbox_',
      layout: 'plain',
      period: 'day',
      ownConnections: 4,
      queryTimeoutMs: 30_000,
      onStatement: null,
    })
  })

  it.each([
    ['nothing', {}],
    ['both sources', { connectionString, pool: {} }],
    ['another scheme', { connectionString: 'postgres://x' }],
    ['no pool', { pool: {} }],
    ['a hostile prefix', { connectionString, prefix: 'x`; DROP TABLE y; -- ' }],
    ['a quoted prefix', { connectionString, prefix: '`x`' }],
    ['a prefix with a dot', { connectionString, prefix: 'other.x_' }],
    ['a prefix that is too long', { connectionString, prefix: 'x'.repeat(41) }],
    ['an unknown layout', { connectionString, layout: 'wide' }],
    ['an unknown period', { connectionString, period: 'week' }],
    ['too few connections', { connectionString, ownConnections: 1 }],
    ['a pool size beside a pool', { pool: {}, poolSize: 3 }],
    ['a name that nobody knows', { connectionString, perfix: 'a_' }],
    ['no function', { connectionString, onStatement: 'x' }],
  ])('%s is refused', (_, options) => {
    expect(() => resolveMysqlOptions(options as never)).toThrow(
      expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION' }),
    )
  })

  it('say nothing of the password', () => {
    const wrong = (): unknown => resolveMysqlOptions({ connectionString: 'http://me:secret@x/y' })
    expect(wrong).toThrow(expect.objectContaining({ message: expect.not.stringContaining('secret') }))
  })

  it('take MariaDB’s scheme, and the settings of a pool', async () => {
    const { source } = resolveMysqlOptions({ connectionString: 'mariadb://me@x/y' })
    expect(source).toMatchObject({ connectionString: 'mysql://me@x/y' })
    const pool = mysql.createPool({ host: 'db.example', user: 'me', password: 'secret', database: 'shop' })
    expect(resolveMysqlOptions({ pool }).source).toMatchObject({
      settings: { host: 'db.example', user: 'me', password: 'secret', database: 'shop' },
    })
    await pool.end()
  })

  it('do no I/O', () => {
    expect(mysqlStore({ connectionString: 'mysql://nowhere.invalid/x' }).name).toBe('mysql')
  })
})
