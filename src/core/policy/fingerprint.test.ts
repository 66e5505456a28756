import { describe, expect, it } from 'vitest'
import { fingerprintOf, normaliseMessage } from './fingerprint.ts'

describe('a message without what varies', () => {
  it.each([
    ['customer 17 is unknown', 'customer <n> is unknown'],
    ['order 0190b6f0-1c2d-7abc-8def-0123456789ab: "ada" is no address', 'order <id>: <value> is no address'],
    ['connect ECONNREFUSED 127.0.0.1:5432', 'connect ECONNREFUSED <n>:<n>'],
    ['at 2026-11-15T18:00:01.250Z it was refused', 'at <time> it was refused'],
    ["can't parse 'x', isn't JSON", "can't parse <value>, isn't JSON"],
    ['digest 9f86d081884c7d65 differs', 'digest <id> differs'],
    ['took 12.5 s, 0.123456789012 s, at 1699999999999', 'took <n> s, <n> s, at <n>'],
    ['  two\n lines ', 'two lines'],
    ['', ''],
  ])('%j is %j', (message, expected) => {
    expect(normaliseMessage(message)).toBe(expected)
  })

  it('is made in a moment of whatever there is', () => {
    for (const text of ['"'.repeat(100_000), "'".repeat(100_000), 'a'.repeat(100_000), '1-'.repeat(50_000)])
      expect(normaliseMessage(text).length).toBeLessThanOrEqual(2_000)
  })
})

describe('a fingerprint', () => {
  it('is the same for the same texts, and another for others', () => {
    const made = [
      fingerprintOf('a', 'b'),
      fingerprintOf('ab', ''),
      fingerprintOf('b', 'a'),
      fingerprintOf('a', 'c'),
    ]
    expect(fingerprintOf('a', 'b')).toBe(made[0])
    expect(new Set(made).size).toBe(4)
    for (const one of made) expect(one).toMatch(/^[0-9a-f]{16}$/)
  })
})
