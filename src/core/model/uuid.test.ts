import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createIdGenerator, isUuid, uuidFromBytes, uuidTimestampMs, uuidToBytes, uuidToHex } from './uuid.ts'

const clockFrom = (...times: number[]) => {
  let next = 0
  return () => times[Math.min(next++, times.length - 1)] as number
}
const filledWith = (byte: number) => (length: number) => new Uint8Array(length).fill(byte)
const seededBytes = (seed: number) => (length: number) => {
  const bytes = new Uint8Array(length)
  for (let i = 0; i < length; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) | 0
    bytes[i] = seed >>> 24
  }
  return bytes
}

describe('createIdGenerator', () => {
  it('lays out timestamp, version, counter, variant and randomness as documented', () => {
    const next = createIdGenerator({ wallNow: () => 0x0123456789ab, randomBytes: filledWith(0xff) })
    expect(next()).toBe('01234567-89ab-77ff-bfff-ffffffffffff')
    expect(next()).toBe('01234567-89ab-7800-8000-0000ffffffff')
  })

  it('makes ids whose text order is their generation order, whatever the clock does', () => {
    const times = fc.array(fc.integer({ min: 0, max: 2 ** 48 - 2 }), { minLength: 2, maxLength: 60 })
    fc.assert(
      fc.property(times, fc.integer(), (walls, seed) => {
        const next = createIdGenerator({ wallNow: clockFrom(...walls), randomBytes: seededBytes(seed) })
        const ids = walls.map(() => next())
        expect([...ids].sort()).toEqual(ids)
        expect(new Set(ids).size).toBe(ids.length)
        for (const id of ids) {
          expect(isUuid(id)).toBe(true)
          expect(id).toBe(id.toLowerCase())
          expect(id[14]).toBe('7')
          expect('89ab').toContain(id[19])
        }
      }),
    )
  })

  it('carries the highest time seen so far while the clock is behind', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 2 ** 48 - 2 }), { minLength: 1 }), (walls) => {
        const next = createIdGenerator({ wallNow: clockFrom(...walls), randomBytes: seededBytes(7) })
        let highest = 0
        for (const wall of walls) {
          highest = Math.max(highest, wall)
          expect(uuidTimestampMs(next())).toBe(highest)
        }
      }),
    )
  })

  it('stays in order over many ids in one millisecond and over many blocks of randomness', () => {
    const next = createIdGenerator({ wallNow: () => 1_700_000_000_000, randomBytes: seededBytes(3) })
    let previous = next()
    for (let i = 0; i < 20_000; i++) {
      const id = next()
      expect(id > previous).toBe(true)
      previous = id
    }
  })

  it('leaves room for 2^41 ids behind every random start, so the counter cannot wrap in practice', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const next = createIdGenerator({ wallNow: () => 5, randomBytes: seededBytes(seed) })
        expect(Number.parseInt(next().slice(15, 18), 16)).toBeLessThan(2 ** 11)
      }),
    )
  })

  it('takes whole milliseconds from a clock with fractions', () => {
    const next = createIdGenerator({ wallNow: () => 1234.9, randomBytes: filledWith(0) })
    expect(uuidTimestampMs(next())).toBe(1234)
  })

  it.each([Number.NaN, -1, 2 ** 48, Number.POSITIVE_INFINITY])('refuses a clock that says %s', (wall) => {
    const next = createIdGenerator({ wallNow: () => wall, randomBytes: filledWith(0) })
    expect(next).toThrow(RangeError)
  })

  it('goes on in order after its source of randomness failed once', () => {
    let calls = 0
    const randomBytes = (length: number) => {
      calls += 1
      if (calls === 2) throw new Error('no entropy')
      return new Uint8Array(length).fill(0xff)
    }
    let now = 0
    const wallNow = () => {
      now += 1
      return now
    }
    const next = createIdGenerator({ wallNow, randomBytes })
    const ids: string[] = []
    let failures = 0
    for (let i = 0; i < 500; i++) {
      try {
        ids.push(next())
      } catch {
        failures += 1
      }
    }
    expect(failures).toBe(1)
    expect([...new Set(ids)].sort()).toEqual(ids)
  })

  it('refuses a source that gives fewer random bytes than it was asked for', () => {
    const next = createIdGenerator({ wallNow: () => 1, randomBytes: () => new Uint8Array(3) })
    expect(next).toThrow(RangeError)
  })
})

describe('conversions', () => {
  it('go from bytes to text and back without a change', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 16 }), (bytes) => {
        const text = uuidFromBytes(bytes)
        expect(isUuid(text)).toBe(true)
        expect(uuidToBytes(text)).toEqual(bytes)
        expect(uuidToBytes(text.toUpperCase())).toEqual(bytes)
        expect(uuidToHex(text.toUpperCase())).toBe(Buffer.from(bytes).toString('hex'))
      }),
    )
  })

  it('order bytes and text alike', () => {
    const uuid = fc.uuid()
    fc.assert(
      fc.property(uuid, uuid, (a, b) => {
        expect(Math.sign(Buffer.compare(uuidToBytes(a), uuidToBytes(b)))).toBe(a < b ? -1 : a > b ? 1 : 0)
      }),
    )
  })

  it.each(['', 'x', '0123456789abcdef0123456789abcdef', '01234567-89ab-77ff-bfff-fffffffffff', 7, null])(
    'do not take %j for a UUID',
    (value) => {
      expect(isUuid(value)).toBe(false)
      expect(() => uuidToBytes(value as string)).toThrow(TypeError)
    },
  )

  it('refuse bytes of another length', () => {
    expect(() => uuidFromBytes(new Uint8Array(15))).toThrow(TypeError)
  })

  it('say nothing about the time of an id of another version', () => {
    expect(uuidTimestampMs('01234567-89ab-47ff-bfff-ffffffffffff')).toBeUndefined()
    expect(uuidTimestampMs('nonsense')).toBeUndefined()
  })
})
