import { describe, expect, it } from 'vitest'
import { formatDuration, parseDuration } from '../config/duration.ts'
import { clean, jsonText } from './text.ts'

describe('text from data', () => {
  it('cannot command a terminal', () => {
    expect(clean('a\u001b[31mred\u0007\r\n\u009b1m\u202etxt')).toBe(
      'a\\x1b[31mred\\x07\\r\\n\\x9b1m\\u202etxt',
    )
    expect(JSON.parse(jsonText({ a: '\u009b\u202e', n: 1n }))).toEqual({ a: '\u009b\u202e', n: '1' })
    expect(jsonText({ a: '\u009b\u202e' })).toBe('{"a":"\\u009b\\u202e"}')
  })

  it.each([
    ['postgres://shop:geheim@host/db', 'postgres://shop:***@host/db'],
    ['cannot reach mysql://u:p@ss:word@h:1/x now', 'cannot reach mysql://u:***@h:1/x now'],
    ['host=x password=geheim dbname=y', 'host=x password=*** dbname=y'],
    ['https://h/?sslpassword=geheim&a=1', 'https://h/?sslpassword=***&a=1'],
    ['redis://host:6379/0', 'redis://host:6379/0'],
  ])('hides the secret in %s', (text, shown) => {
    expect(clean(text)).toBe(shown)
  })
})

describe('durations', () => {
  it.each([
    ['250ms', 250],
    ['1m30s', 90_000],
    ['168h', 604_800_000],
    ['1.5h', 5_400_000],
    ['7d', 604_800_000],
    ['0', 0],
    ['5', null],
    ['soon', null],
    ['-5s', null],
    ['', null],
  ])('%s', (text, ms) => {
    expect(parseDuration(text)).toBe(ms)
  })

  it('are told in the two largest units', () => {
    expect([40, 1_540, 12_000, 90_000, 3_600_000, 100_000_000].map(formatDuration)).toEqual([
      '40ms',
      '1.5s',
      '12s',
      '1m 30s',
      '1h',
      '1d 3h',
    ])
  })
})
