/** Values that have broken somebody's software before, beside ordinary ones. */
import fc from 'fast-check'

const NAMES = ['__proto__', 'constructor', 'prototype', 'toJSON', 'toString', 'hasOwnProperty', 'length', '']

/** Texts by UTF-16 unit, so that halves of pairs, U+0000 and line ends occur. */
export const hostileText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc
    .array(
      fc.oneof(fc.constantFrom(0, 10, 13, 0x22, 0x27, 0x5c, 0xd83d, 0xde00, 0xdfff, 0xfeff), fc.nat(0xffff)),
      {
        maxLength: 30,
      },
    )
    .map((units) => String.fromCharCode(...units)),
  fc.constantFrom(...NAMES, "'; DROP TABLE x; --", '"', '`', '%s', '{x}', '\u202e', '\ud800', '\u0000', '💥'),
  fc.nat(400).map((length) => 'x'.repeat(length)),
)

export const plainText = fc.oneof(
  fc.string({ unit: 'grapheme-composite', minLength: 1, maxLength: 20 }),
  fc.stringMatching(/^[a-z][a-z0-9.-]{0,20}$/),
)

const hostileNumber = fc.oneof(
  fc.double(),
  fc.constantFrom(
    Number.NaN,
    -0,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    2 ** 53,
    -(2 ** 53),
    1e308,
    5e-324,
  ),
)

const nested = (depth: number): unknown => {
  let value: unknown = 1
  for (let i = 0; i < depth; i += 1) value = i % 2 === 0 ? [value] : { a: value }
  return value
}

const cycle = (): unknown => {
  const value: Record<string, unknown> = { a: [] }
  ;(value.a as unknown[]).push(value)
  return value
}

const explosive = (): never => {
  throw new Error('a getter that throws')
}

/** Each made anew, because some of them are changed by being read. */
const MADE: readonly (() => unknown)[] = [
  cycle,
  () => Object.defineProperty({}, 'a', { enumerable: true, get: explosive }),
  () => new Proxy({}, { ownKeys: explosive, get: explosive, getPrototypeOf: explosive, has: explosive }),
  () => new Proxy([], { get: explosive }),
  () => Proxy.revocable({}, {}).proxy,
  () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy
  },
  () => ({ toJSON: explosive }),
  () => ({ toJSON: () => ({ toJSON: 1, b: [undefined] }) }),
  () => ({ toString: explosive, valueOf: explosive, [Symbol.toPrimitive]: explosive }),
  () =>
    JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}') as unknown,
  () => Object.create(null) as unknown,
  () => {
    const sparse: unknown[] = [1]
    sparse[3] = 2
    return sparse
  },
  () => new Date(Number.NaN),
  () => new Date(0),
  () => new Map([['a', 1]]),
  () => new Set([1]),
  () => new Uint8Array([0, 255, 128]),
  () => new Float64Array([1.5]),
  () => new DataView(new ArrayBuffer(3)),
  () => new ArrayBuffer(3),
  () => Buffer.from('bytes'),
  () => Symbol('s'),
  () => 10n,
  () => () => 1,
  () => class A {},
  () => /x/g,
  () => new Error('an error'),
  () => Promise.resolve(1),
  () => new WeakMap(),
  () => Object(1) as unknown,
  () => Object('text') as unknown,
  () => Object.freeze({ a: Object.freeze([1]) }),
  () => nested(63),
  () => nested(64),
  () => nested(65),
  () => nested(20_000),
  () => new Array(100_000).fill(0),
]

/** Stands for a value that fast-check itself could not hold, or that is changed by being read. */
class Recipe {
  readonly #make: () => unknown

  constructor(make: () => unknown) {
    this.#make = make
  }

  make(): unknown {
    return this.#make()
  }

  [fc.toStringMethod](): string {
    return `(${String(this.#make)})()`
  }
}

const made = fc.constantFrom(...MADE.map((make) => new Recipe(make)))

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null || Array.isArray(value)
}

const DEEPEST_RECIPE = 5

/** The value with recipes followed; the same object where there are none in it. */
export const follow = (value: unknown, depth = 0): unknown => {
  if (value instanceof Recipe) return value.make()
  if (typeof value !== 'object' || value === null || depth > DEEPEST_RECIPE || !isPlain(value)) return value
  const before = Object.entries(value)
  const after = before.map(([name, inner]) => [name, follow(inner, depth + 1)] as const)
  if (after.every(([, inner], i) => Object.is(inner, before[i]?.[1]))) return value
  const copy: object = Array.isArray(value) ? [] : {}
  for (const [name, inner] of after)
    Object.defineProperty(copy, name, { value: inner, enumerable: true, writable: true, configurable: true })
  return copy
}

const anything = fc.anything({
  key: fc.oneof(fc.constantFrom(...NAMES), hostileText),
  values: [hostileNumber, hostileText, fc.boolean(), fc.constantFrom(null, undefined), fc.bigInt()],
  withBigInt: true,
  withDate: true,
  withMap: true,
  withNullPrototype: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
  maxDepth: 3,
})

export const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  made,
  anything,
  hostileText,
  hostileNumber,
  // One that is in the middle of something ordinary.
  fc.tuple(plainText, made).map(([name, value]) => ({ before: 1, [name]: [value], after: 'x' })),
)

export const jsonValue: fc.Arbitrary<unknown> = fc.jsonValue({ maxDepth: 4 })
