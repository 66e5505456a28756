import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidEventError, InvalidOptionError } from '../errors.ts'
import { checkHeaders, checkName, HEADER_LIMITS, NAME_LIMITS, type NameKind } from './headers.ts'

const reasonOf = (act: () => unknown): unknown => {
  try {
    act()
  } catch (error) {
    if (error instanceof InvalidEventError) return error.detail.reason
    throw error
  }
  return undefined
}

describe('checkHeaders', () => {
  it('returns a frozen copy that later changes of the original do not reach', () => {
    const given: Record<string, string> = { 'X-Trace': 'a b', empty: '', name: 'Zoë 😀' }
    const checked = checkHeaders(given)
    given['X-Trace'] = 'changed'
    expect({ ...checked }).toEqual({ 'X-Trace': 'a b', empty: '', name: 'Zoë 😀' })
    expect(Object.isFrozen(checked)).toBe(true)
  })

  it('keeps __proto__ and constructor as data', () => {
    const checked = checkHeaders(JSON.parse('{"__proto__":"a","constructor":"b"}'))
    expect(Object.keys(checked)).toEqual(['__proto__', 'constructor'])
    expect(Object.getPrototypeOf(checked)).toBe(null)
    expect(JSON.stringify(checked)).toBe('{"__proto__":"a","constructor":"b"}')
  })

  it('takes no headers for an empty map', () => {
    expect(Object.keys(checkHeaders(undefined))).toEqual([])
    expect(Object.keys(checkHeaders({}))).toEqual([])
  })

  it.each([
    ['null', null, 'not-a-map'],
    ['a Map', new Map([['a', 'b']]), 'not-a-map'],
    ['a Promise that nobody awaited', Promise.resolve({ a: 'b' }), 'not-a-map'],
    ['an array', [['a', 'b']], 'not-a-map'],
    ['a text', 'a: b', 'not-a-map'],
    ['an empty name', { '': 'x' }, 'bad-name'],
    ['a name with a space', { 'a b': 'x' }, 'bad-name'],
    ['a name with a colon', { 'a:b': 'x' }, 'bad-name'],
    ['a name outside ASCII', { é: 'x' }, 'bad-name'],
    ['a long name', { ['n'.repeat(129)]: 'x' }, 'name-too-long'],
    ['a number', { a: 1 }, 'not-text'],
    ['an undefined value', { a: undefined }, 'not-text'],
    ['a long value', { a: 'v'.repeat(4097) }, 'value-too-long'],
    ['a line break', { a: 'x\r\nSet-Cookie: y' }, 'control-character'],
    ['U+0000', { a: '\0' }, 'control-character'],
    ['U+0085', { a: '\u0085' }, 'control-character'],
    ['a lone surrogate', { a: '\ud83d' }, 'lone-surrogate'],
    ['65 headers', Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`h${i}`, ''])), 'too-many'],
    ['more than 16 KiB', { a: 'é'.repeat(4096), b: 'é'.repeat(4096), c: '' }, 'too-large'],
    [
      'a getter that throws',
      {
        get a() {
          throw new Error('boom')
        },
      },
      'threw',
    ],
  ])('refuses %s', (_what, headers, reason) => {
    expect(reasonOf(() => checkHeaders(headers))).toBe(reason)
  })

  it('names the header but never its value', () => {
    expect(() => checkHeaders({ 'X-Token': 'secret\n' })).toThrow(
      'The event’s headers["X-Token"] must not contain control characters.',
    )
  })

  it('never lets through a value that could forge a header', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.string({ unit: 'binary' })), (headers) => {
        if (reasonOf(() => checkHeaders(headers)) !== undefined) return
        for (const [name, value] of Object.entries(checkHeaders(headers))) {
          expect(name).toMatch(/^[\x21-\x7e]{1,128}$/)
          expect([...value].every((char) => char >= ' ' && char !== '\x7f')).toBe(true)
          expect(Buffer.from(value).toString()).toBe(value)
        }
      }),
    )
  })

  it('accepts exactly the limits', () => {
    const { count, nameChars, valueChars } = HEADER_LIMITS
    expect(() => checkHeaders({ ['n'.repeat(nameChars)]: 'v'.repeat(valueChars) })).not.toThrow()
    const many = Object.fromEntries(Array.from({ length: count }, (_, i) => [`h${i}`, 'v']))
    expect(Object.keys(checkHeaders(many))).toHaveLength(count)
  })
})

describe('checkName', () => {
  const kinds = Object.keys(NAME_LIMITS) as NameKind[]

  it.each(kinds)('accepts a %s up to its limit and refuses a longer one', (kind) => {
    const longest = 'n'.repeat(NAME_LIMITS[kind])
    expect(checkName(kind, longest)).toBe(longest)
    expect(() => checkName(kind, `${longest}n`)).toThrow(
      kind === 'destination' ? InvalidOptionError : InvalidEventError,
    )
    expect(() => checkName(kind, 'abc', 2)).toThrow(/at most 2 characters/)
  })

  it.each([
    ['', 'empty'],
    [7, 'not-text'],
    [undefined, 'not-text'],
    ['a\nb', 'control-character'],
    ['a\0', 'control-character'],
    ['\udc00', 'lone-surrogate'],
  ])('refuses %j as a key', (value, reason) => {
    expect(reasonOf(() => checkName('key', value))).toBe(reason)
  })

  it('accepts every other text as a key', () => {
    expect(checkName('key', 'Kunde/日本 😀 #7')).toBe('Kunde/日本 😀 #7')
  })

  it.each(['1st', 'a b', '*', '-a', 'é', '__proto__'])('refuses %j as a destination', (name) => {
    expect(() => checkName('destination', name)).toThrow(InvalidOptionError)
  })

  it('accepts a destination of letters, digits and ._-', () => {
    expect(checkName('destination', 'Kafka-eu.west_1')).toBe('Kafka-eu.west_1')
  })
})
