import { describe, expect, it } from 'vitest'
import { InvalidOptionError } from '../../core/errors.ts'
import { checkPrefix, quoteIdentifier, tablesOf } from './identifiers.ts'

describe('names in SQL text', () => {
  it('accepts letters, digits and underscores', () => {
    for (const prefix of ['outbox_', 'o', '_x', 'Shop2_outbox_', 'a'.repeat(40)]) {
      expect(checkPrefix('prefix', prefix)).toBe(prefix)
    }
  })

  it('refuses everything that could leave its quotes, and what is too long', () => {
    const hostile = [
      '',
      '1x',
      'a"b',
      "a'b",
      'a;DROP TABLE x',
      'a b',
      'a\0b',
      'a\n',
      'a--',
      'a`b',
      'a[b]',
      'ä_',
      'a.b',
      'a$b',
      'a'.repeat(41),
      'sqlite_',
      'SQLITE_x',
      undefined,
      null,
      7,
      {},
    ]
    for (const value of hostile) expect(() => checkPrefix('prefix', value)).toThrow(InvalidOptionError)
  })

  it('quotes the names of all tables', () => {
    expect(tablesOf('shop_').deliveries).toBe('"shop_deliveries"')
    expect(quoteIdentifier('a"b')).toBe('"a""b"')
  })
})
