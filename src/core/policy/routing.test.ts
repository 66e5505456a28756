import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidOptionError } from '../errors.ts'
import { compilePattern, createRouter, matches } from './routing.ts'

const segment = fc.stringMatching(/^[a-z]{1,6}$/)
const type = fc.array(segment, { minLength: 1, maxLength: 4 }).map((segments) => segments.join('.'))

describe('patterns', () => {
  it.each([
    ['order.placed', 'order.placed', true],
    ['order.placed', 'order.placed.late', false],
    ['order.placed', 'Order.Placed', false],
    ['order.*', 'order.placed', true],
    ['order.*', 'order.line.added', true],
    ['order.*', 'order', false],
    ['order.*', 'order.', false],
    ['order.*', 'orders.placed', false],
    ['order.line.*', 'order.line.added', true],
    ['order.line.*', 'order.placed', false],
    ['*', 'anything.at-all', true],
    ['order', 'order', true],
  ])('%s against %s: %s', (pattern, eventType, expected) => {
    expect(matches(compilePattern(pattern), eventType)).toBe(expected)
  })

  it('match by prefix exactly what begins with the prefix, the dot and something more', () => {
    fc.assert(
      fc.property(type, type, (prefix, other) => {
        const pattern = compilePattern(`${prefix}.*`)
        expect(matches(pattern, `${prefix}.${other}`)).toBe(true)
        expect(matches(pattern, prefix)).toBe(false)
        expect(matches(pattern, other)).toBe(other.startsWith(`${prefix}.`))
      }),
    )
  })

  it.each(['', '.*', '*.placed', 'or*der', 'order.**', 'order*', '**', 'a\nb', '\ud83d', 'x'.repeat(129)])(
    'refuse %j',
    (pattern) => {
      expect(() => compilePattern(pattern)).toThrow(InvalidOptionError)
    },
  )

  it('refuse what is not a string', () => {
    for (const wrong of [undefined, null, 7, {}]) {
      expect(() => compilePattern(wrong as unknown as string)).toThrow(InvalidOptionError)
    }
  })
})

describe('createRouter', () => {
  it('names each destination once, in the order of declaration', () => {
    const router = createRouter([
      { name: 'kafka', patterns: ['order.*', 'order.placed', '*'] },
      { name: 'mailer', patterns: ['order.placed'] },
      { name: 'audit', patterns: [] },
      { name: 'archive', patterns: ['*'] },
    ])
    expect(router.routes('order.placed')).toEqual(['kafka', 'mailer', 'archive'])
    expect(router.routes('user.created')).toEqual(['kafka', 'archive'])
  })

  it('gives the same frozen answer again', () => {
    const router = createRouter([{ name: 'a', patterns: ['*'] }])
    expect(router.routes('x')).toBe(router.routes('x'))
    expect(Object.isFrozen(router.routes('x'))).toBe(true)
  })

  it('answers like the patterns themselves, also beyond the size of its cache', () => {
    const patterns = ['order.*', 'order.line.added', 't.1']
    const router = createRouter(patterns.map((pattern, i) => ({ name: `d${i}`, patterns: [pattern] })))
    const expected = (eventType: string) =>
      patterns.flatMap((pattern, i) => (matches(compilePattern(pattern), eventType) ? [`d${i}`] : []))
    for (let i = 0; i < 25_000; i++) {
      const eventType = i % 2 === 0 ? `t.${i % 9}` : `order.${i}`
      expect(router.routes(eventType)).toEqual(expected(eventType))
    }
    fc.assert(
      fc.property(type, (eventType) => {
        expect(router.routes(eventType)).toEqual(expected(eventType))
      }),
    )
  })

  it('refuses a destination that is declared twice or has a name that cannot be stored', () => {
    const twice = [
      { name: 'a', patterns: ['*'] },
      { name: 'a', patterns: ['x'] },
    ]
    expect(() => createRouter(twice)).toThrow(InvalidOptionError)
    expect(() => createRouter([{ name: '*', patterns: ['*'] }])).toThrow(InvalidOptionError)
  })
})
