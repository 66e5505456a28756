import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { describeError } from './error-text.ts'

const boom = (): never => {
  throw new Error('boom')
}

describe('describeError', () => {
  it('gives code, message and stack of an ordinary error', () => {
    const described = describeError(Object.assign(new Error('no such topic'), { code: 'UNKNOWN_TOPIC' }))
    expect(described).toMatchObject({ code: 'UNKNOWN_TOPIC', message: 'no such topic' })
    expect(described.stack).toContain('error-text.test.ts')
  })

  it('says what caused an error, and takes the code from there if need be', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:1'), { code: 'ECONNREFUSED' })
    expect(describeError(new TypeError('fetch failed', { cause }))).toMatchObject({
      code: 'ECONNREFUSED',
      message: 'fetch failed; caused by: connect ECONNREFUSED 127.0.0.1:1',
    })
  })

  it('does not say twice what a wrapper repeats', () => {
    const cause = new Error('disk full')
    expect(describeError(new Error('could not save: disk full', { cause })).message).toBe(
      'could not save: disk full',
    )
  })

  it.each([
    ['plain text', 'plain text'],
    ['', 'an empty string was thrown'],
    [undefined, 'undefined was thrown'],
    [null, 'null was thrown'],
    [42, '42 was thrown'],
    [7n, '7 was thrown'],
    [Symbol('s'), 'Symbol(s) was thrown'],
    [{ message: 'from an object' }, 'from an object'],
    [{}, 'Object without a message'],
    [Object.create(null), 'an object without a message was thrown'],
    [new TypeError(), 'TypeError without a message'],
    [{ message: 7, constructor: null }, 'an object without a message was thrown'],
  ])('describes %o', (error, message) => {
    expect(describeError(error).message).toBe(message)
  })

  it('takes a numeric code as text', () => {
    expect(describeError({ code: 1062, message: 'duplicate' }).code).toBe('1062')
    expect(describeError({ code: {}, message: 'x' })).not.toHaveProperty('code')
    expect(describeError({ code: 'c'.repeat(9999), message: 'x' }).code).toHaveLength(128)
  })

  it.each([
    [
      'getters',
      Object.defineProperties({}, { message: { get: boom }, stack: { get: boom }, code: { get: boom } }),
    ],
    ['a proxy', new Proxy({}, { get: boom, has: boom, getPrototypeOf: boom, ownKeys: boom })],
    ['a proxied error', new Proxy(new Error('x'), { get: boom })],
    ['a revoked proxy', revoked()],
    [
      'texts that are no texts',
      { message: { toString: boom }, stack: 7, name: [], constructor: { name: 1 } },
    ],
  ])('does not throw for hostile %s', (_what, error) => {
    expect(typeof describeError(error).message).toBe('string')
  })

  it('is fit for a database and a terminal, and within bounds, for every value there is', () => {
    const unit = fc.oneof(
      fc.constantFrom(0, 10, 13, 27, 0x5b, 0x6d, 0x85, 0xd83d, 0xde00, 0xfffd),
      fc.nat(0xffff),
    )
    const text = fc.array(unit, { maxLength: 60 }).map((codes) => String.fromCharCode(...codes))
    const error = fc.oneof(
      fc.anything(),
      fc.record({ message: text, stack: text, code: text, cause: fc.anything() }),
    )
    fc.assert(
      fc.property(error, fc.integer({ min: 2, max: 40 }), (thrown, maxText) => {
        const { code = '', message, stack = '' } = describeError(thrown, { maxText })
        for (const part of [code, message, stack]) {
          expect(Buffer.from(part).toString()).toBe(part)
          expect(part.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u)
        }
        expect(message).not.toContain('\n')
        expect(message.length).toBeLessThanOrEqual(maxText)
        expect(stack.length).toBeLessThanOrEqual(maxText)
      }),
      { numRuns: 500 },
    )
  })

  it('cuts at 4,000 characters, between characters, and shows that it did', () => {
    const { message } = describeError(new Error('😀'.repeat(3000)))
    expect(message.length).toBeLessThanOrEqual(4000)
    expect(message.endsWith('😀…')).toBe(true)
    expect(describeError('x'.repeat(4000)).message).toBe('x'.repeat(4000))
  })

  it('is quick with a text of many megabytes', () => {
    const huge = '\u001b[31mx\n'.repeat(4_000_000)
    const described = describeError({ message: huge, stack: huge, code: huge })
    expect(described.message.length).toBeLessThanOrEqual(4000)
  })

  it('takes the colours out of a message', () => {
    expect(describeError('\u001b[31mred\u001b[0m\r\nalert\u0007').message).toBe('red alert ')
  })
})

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
