import { describe, expect, it } from 'vitest'
import { checkedName, quoted, splitTable } from './names.ts'

describe('names that somebody typed', () => {
  it.each([
    ['outbox', ['outbox']],
    ['shop.outbox', ['shop', 'outbox']],
    ['"a.b"', ['a.b']],
    ['"a.b".c', ['a.b', 'c']],
    ['"shop"."outbox"', ['shop', 'outbox']],
    ['we;ird name--', ['we;ird name--']],
  ])('%s', (text, parts) => {
    expect(splitTable(text)).toEqual(parts)
  })

  it.each([
    '',
    '.',
    'a.',
    '.a',
    'a.b.c',
    'a"b',
    '"a',
    'a"."b',
    'x"; DROP TABLE y; --',
    'a`b',
    "a'b",
    'a\nb',
    'a\\b',
    'a?b',
    'x'.repeat(129),
  ])('refuses %j', (text) => {
    expect(splitTable(text)).toBeNull()
  })

  it('quotes in the manner of the database', () => {
    expect([checkedName('order'), quoted('mysql', 'order'), quoted('postgres', 'order')]).toEqual([
      'order',
      '`order`',
      '"order"',
    ])
  })
})
