import { createContext, runInContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidEventError } from '../errors.ts'
import { DEFAULT_PAYLOAD_LIMITS, parsePayload, serialisePayload } from './payload.ts'

const LIMITS = DEFAULT_PAYLOAD_LIMITS

function refusal(act: () => unknown): { path: string; reason: unknown; message: string; cause: unknown } {
  try {
    act()
  } catch (error) {
    if (!(error instanceof InvalidEventError)) throw error
    return { path: error.path, reason: error.detail.reason, message: error.message, cause: error.cause }
  }
  throw new Error('nothing was refused')
}

const nested = (depth: number): unknown => {
  let value: unknown = []
  for (let i = 1; i < depth; i++) value = [value]
  return value
}

class Money {
  readonly #cents: number
  constructor(cents: number) {
    this.#cents = cents
  }
  get cents() {
    return this.#cents
  }
}

describe('serialisePayload', () => {
  it('writes what JSON.stringify writes, for every JSON value', () => {
    const jsonValue = fc.jsonValue({ maxDepth: 6, noUnicodeString: false }).filter((value) => {
      const text = JSON.stringify(value)
      return !text.includes('\\u0000') && !text.includes('\\ud')
    })
    fc.assert(
      fc.property(jsonValue, (value) => {
        const { text, bytes } = serialisePayload(value, LIMITS)
        expect(text).toBe(JSON.stringify(value))
        expect(bytes).toBe(Buffer.byteLength(text, 'utf8'))
        expect(parsePayload(text)).toEqual(JSON.parse(JSON.stringify(value)))
      }),
    )
  })

  it('either writes what JSON.stringify writes or refuses, for every value there is', () => {
    const anything = fc.anything({
      withBigInt: true,
      withBoxedValues: true,
      withDate: true,
      withMap: true,
      withNullPrototype: true,
      withObjectString: true,
      withSet: true,
      withSparseArray: true,
      withTypedArray: true,
    })
    fc.assert(
      fc.property(anything, (value) => {
        let text: string
        try {
          text = serialisePayload(value, LIMITS).text
        } catch (error) {
          expect(error).toBeInstanceOf(InvalidEventError)
          return
        }
        expect(text).toBe(JSON.stringify(value))
      }),
      { numRuns: 2000 },
    )
  })

  it('accepts exactly the texts that survive a trip through UTF-8 without U+0000', () => {
    const units = fc.array(
      fc.oneof(fc.constantFrom(0, 0x5c, 0x75, 0x30, 0xd83d, 0xde00, 0xdfff), fc.nat(0xffff)),
    )
    fc.assert(
      fc.property(units, fc.boolean(), (codes, asKey) => {
        const text = String.fromCharCode(...codes)
        const good = Buffer.from(text, 'utf8').toString('utf8') === text && !text.includes('\0')
        const value = asKey ? { [text]: 1 } : [text]
        if (good) expect(parsePayload(serialisePayload(value, LIMITS).text)).toEqual(value)
        else
          expect(['nul', 'lone-surrogate']).toContain(refusal(() => serialisePayload(value, LIMITS)).reason)
      }),
    )
  })

  const cyclic: { self?: unknown; list: unknown[] } = { list: [] }
  cyclic.list.push({ owner: cyclic })
  const holed = [1]
  holed[2] = 3

  it.each([
    ['an undefined root', undefined, '$', 'undefined'],
    ['a function', { on: { error: () => 1 } }, '$.on.error', 'function'],
    ['a symbol', [Symbol('x')], '$[0]', 'symbol'],
    ['a BigInt', { items: [1, 2, 3, { price: 1n }] }, '$.items[3].price', 'bigint'],
    ['a boxed BigInt', { id: Object(1n) }, '$.id', 'lossy-object'],
    ['NaN', { a: Number.NaN }, '$.a', 'not-finite'],
    ['an infinite number', [[Number.NEGATIVE_INFINITY]], '$[0][0]', 'not-finite'],
    ['a cycle', cyclic, '$.list[0].owner', 'cycle'],
    ['a nesting beyond the limit', { deep: nested(64) }, `$.deep${'[0]'.repeat(63)}`, 'too-deep'],
    ['U+0000 in a text', { 'odd key': 'a\0b' }, '$["odd key"]', 'nul'],
    ['U+0000 in a key', { a: { 'x\0': 1 } }, '$.a["x\\u0000"]', 'nul'],
    ['a lone surrogate in a text', ['\ud83d'], '$[0]', 'lone-surrogate'],
    ['a lone surrogate in a key', { '\ude00': 1 }, '$["\\ude00"]', 'lone-surrogate'],
    ['a hole in an array', { a: holed }, '$.a[1]', 'sparse-array'],
    ['undefined in an array', [undefined], '$[0]', 'undefined'],
    ['an invalid Date', { at: new Date(Number.NaN) }, '$.at', 'invalid-date'],
    ['a Map', { m: new Map([[1, 2]]) }, '$.m', 'lossy-object'],
    ['a Set', new Set([1]), '$', 'lossy-object'],
    ['an Error', { error: Object.assign(new Error('x'), { code: 'E' }) }, '$.error', 'lossy-object'],
    ['a Promise', { later: Promise.resolve(1) }, '$.later', 'lossy-object'],
    ['bytes', { data: new Uint8Array(2) }, '$.data', 'lossy-object'],
    ['an instance whose fields are private', { total: new Money(5) }, '$.total', 'lossy-object'],
  ])('refuses %s and names the place', (_what, value, path, reason) => {
    expect(refusal(() => serialisePayload(value, LIMITS))).toMatchObject({ path, reason })
  })

  it.each([
    [
      'a getter',
      {
        get bad() {
          throw new Error('boom')
        },
      },
      '$.bad',
    ],
    [
      'a toJSON',
      {
        bad: {
          toJSON() {
            throw new Error('boom')
          },
        },
      },
      '$.bad',
    ],
    [
      'a proxy',
      {
        bad: new Proxy(
          {},
          {
            ownKeys() {
              throw new Error('boom')
            },
          },
        ),
      },
      '$.bad',
    ],
    [
      'a root proxy',
      new Proxy(
        {},
        {
          get() {
            throw new Error('boom')
          },
        },
      ),
      '$',
    ],
  ])('contains %s that throws and passes its error on as the cause', (_what, value, path) => {
    const refused = refusal(() => serialisePayload({ outer: [value] }, LIMITS))
    expect(refused).toMatchObject({ path: `$.outer[0]${path.slice(1)}`, reason: 'threw' })
    expect(refused.cause).toEqual(new Error('boom'))
  })

  it('refuses what is larger than the limit, counted in UTF-8 bytes, and accepts what just fits', () => {
    expect(serialisePayload('éé', { ...LIMITS, maxBytes: 6 }).bytes).toBe(6)
    expect(refusal(() => serialisePayload('éé', { ...LIMITS, maxBytes: 5 }))).toMatchObject({
      path: '$',
      reason: 'too-large',
    })
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const bytes = Buffer.byteLength(JSON.stringify(value))
        expect(serialisePayload(value, { ...LIMITS, maxBytes: bytes }).bytes).toBe(bytes)
        const tooSmall = { ...LIMITS, maxBytes: bytes - 1 }
        expect(refusal(() => serialisePayload(value, tooSmall))).toMatchObject({
          path: '$',
          reason: 'too-large',
        })
      }),
    )
  })

  it('stops at a size limit before it has read everything', () => {
    let reads = 0
    const rows = Array.from({ length: 1000 }, () => ({
      get text() {
        reads += 1
        return 'x'.repeat(100)
      },
    }))
    expect(refusal(() => serialisePayload(rows, { ...LIMITS, maxBytes: 1000 })).reason).toBe('too-large')
    expect(reads).toBeLessThan(12)
  })

  it('reads every getter and calls every toJSON once', () => {
    const reads: string[] = []
    const value = {
      get amount() {
        reads.push('amount')
        return reads.length === 1 ? 5 : Number.NaN
      },
      at: {
        toJSON(key: string) {
          reads.push(`toJSON ${key}`)
          return { key }
        },
      },
    }
    expect(serialisePayload([value], LIMITS).text).toBe('[{"amount":5,"at":{"key":"at"}}]')
    expect(reads).toEqual(['amount', 'toJSON at'])
  })

  it('takes what toJSON gives as it is, as JSON does', () => {
    const at = new Date(0)
    const self = {
      x: 1,
      toJSON() {
        return this
      },
    }
    expect(serialisePayload({ at, gone: { toJSON: () => undefined } }, LIMITS).text).toBe(
      '{"at":"1970-01-01T00:00:00.000Z"}',
    )
    expect(refusal(() => serialisePayload(self, LIMITS))).toMatchObject({
      path: '$.toJSON',
      reason: 'function',
    })
    expect(serialisePayload(Buffer.from('a'), LIMITS).text).toBe('{"type":"Buffer","data":[97]}')
    expect(refusal(() => serialisePayload({ toJSON: () => undefined }, LIMITS)).reason).toBe('undefined')
    expect(refusal(() => serialisePayload([{ toJSON: () => undefined }], LIMITS)).path).toBe('$[0]')
  })

  it('drops undefined properties and writes instances by their own properties, as JSON does', () => {
    class Order {
      readonly id = 7
      readonly note = undefined
    }
    expect(serialisePayload({ a: undefined, order: new Order(), b: null }, LIMITS).text).toBe(
      '{"order":{"id":7},"b":null}',
    )
  })

  it('takes objects of another realm and without a prototype for plain ones', () => {
    const foreign: unknown = runInContext('({ a: {}, b: [] })', createContext({}))
    expect(serialisePayload(foreign, LIMITS).text).toBe('{"a":{},"b":[]}')
    expect(serialisePayload(Object.create(null), LIMITS).text).toBe('{}')
  })

  it('keeps __proto__ and constructor as data and leaves the prototype of objects alone', () => {
    const text = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'
    const value = parsePayload(text)
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(Object.keys(value as object)).toEqual(['__proto__', 'constructor'])
    expect(serialisePayload(value, LIMITS).text).toBe(text)
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
  })

  it('takes the same object in two places for what it is: no cycle', () => {
    const shared = { a: 1 }
    expect(serialisePayload([shared, { shared }], LIMITS).text).toBe('[{"a":1},{"shared":{"a":1}}]')
  })

  it('accepts the deepest nesting that is allowed', () => {
    expect(serialisePayload(nested(64), LIMITS).text).toHaveLength(128)
  })

  it('says in words what is wrong, without the value itself', () => {
    const { message } = refusal(() => serialisePayload({ card: ['4111', 1n] }, LIMITS))
    expect(message).toBe("The payload's $.card[1] is a BigInt, which JSON cannot hold; send it as a string.")
  })
})
