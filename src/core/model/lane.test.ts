import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LANES, laneOf } from './lane.ts'
import { createIdGenerator } from './uuid.ts'

/** The documented algorithm once more, in the arithmetic that SQL and other languages have. */
function referenceLane(text: string): number {
  let hash = 2166136261n
  for (const byte of new TextEncoder().encode(text)) hash = ((hash ^ BigInt(byte)) * 16777619n) & 0xffffffffn
  return Number((hash ^ (hash >> 16n)) % 64n)
}

function countLanes(inputs: readonly string[]): number[] {
  const counts = new Array<number>(LANES).fill(0)
  for (const input of inputs) counts[laneOf(input)] = (counts[laneOf(input)] as number) + 1
  return counts
}

describe('laneOf', () => {
  it.each([
    ['', 25],
    ['a', 32],
    ['order-1', 18],
    ['order-2', 11],
    ['Ana García', 12],
    ['日本語', 56],
    ['😀', 42],
    ['018f3c1e-7a1b-7c3d-9e4f-0123456789ab', 49],
  ])('never changes: %j is in lane %i', (input, lane) => {
    expect(laneOf(input)).toBe(lane)
  })

  it('follows the documented algorithm for every text, lone surrogates included', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(laneOf(text)).toBe(referenceLane(text))
      }),
    )
    const units = fc.array(fc.integer({ min: 0, max: 0xffff }))
    fc.assert(
      fc.property(units, (codes) => {
        const text = String.fromCharCode(...codes)
        expect(laneOf(text)).toBe(referenceLane(text))
      }),
    )
  })

  it('stays within the lanes', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(laneOf(text)).toBeGreaterThanOrEqual(0)
        expect(laneOf(text)).toBeLessThan(LANES)
        expect(Number.isInteger(laneOf(text))).toBe(true)
      }),
    )
  })

  it('spreads ids of one process evenly', () => {
    let seed = 42
    const nextByte = () => {
      seed = (Math.imul(seed, 1664525) + 1013904223) | 0
      return seed >>> 24
    }
    const randomBytes = (length: number) => Uint8Array.from({ length }, nextByte)
    let now = 1_700_000_000_000
    const wallNow = () => {
      now += 0.1
      return now
    }
    const next = createIdGenerator({ wallNow, randomBytes })
    const counts = countLanes(Array.from({ length: 65_536 }, next))
    const chiSquare = counts.reduce((sum, count) => sum + (count - 1024) ** 2 / 1024, 0)
    // With 63 degrees of freedom a fair spread stays below 120 with a probability above 0.99998.
    expect(chiSquare).toBeLessThan(120)
  })

  it.each(['order-', 'customer:', '', 'tenant-7/cart/'])(
    'leaves no lane crowded for keys like %j1',
    (prefix) => {
      const keys = Array.from({ length: 65_536 }, (_, i) => prefix + String(i))
      expect(Math.max(...countLanes(keys))).toBeLessThan(1.25 * 1024)
    },
  )
})
