import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { InvalidOptionError } from '../../core/errors.ts'
import { resolveSqliteOptions } from './options.ts'

describe('options of the SQLite store', () => {
  it('have defaults', () => {
    expect(resolveSqliteOptions({ file: 'x.db' })).toEqual({
      source: { file: resolve('x.db') },
      driver: null,
      prefix: 'outbox_',
      busyTimeoutMs: 5_000,
      onStatement: null,
    })
  })

  it.each([':memory:', '/srv/x.db', 'file:x.db?mode=ro'])('leave %s as it is', (file) => {
    expect(resolveSqliteOptions({ file }).source).toEqual({ file })
  })

  it('are refused when they cannot work', () => {
    const refused: unknown[] = [
      {},
      { file: '' },
      { file: 'a\0b' },
      { file: 7 },
      { file: 'x.db', database: {} },
      { database: null },
      { database: 'x.db' },
      { file: 'x.db', driver: 'sqlite3' },
      { file: 'x.db', prefix: 'a b' },
      { file: 'x.db', busyTimeoutMs: -1 },
      { file: 'x.db', busyTimeoutMs: 1.5 },
      { file: 'x.db', busyTimeoutMs: 600_001 },
      { file: 'x.db', prefx: 'a_' },
      { file: 'x.db', onStatement: 5 },
      undefined,
      null,
      'x.db',
    ]
    for (const given of refused)
      expect(() => resolveSqliteOptions(given as never)).toThrow(InvalidOptionError)
  })
})
