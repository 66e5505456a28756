import { describe, expect, it } from 'vitest'
import { findUnknown, hintFor, refuseUnknown } from './unknown-names.ts'

const NAMES: ReadonlySet<string> = new Set(['destination', 'type', 'key', 'pollIntervalMs', 'includeDead'])

describe('unknown names', () => {
  it('are found among known ones, inherited names of objects included', () => {
    expect(findUnknown({ key: 1, destination: 2 }, NAMES)).toBeNull()
    expect(findUnknown({ key: 1, kye: 2 }, NAMES)).toBe('kye')
    expect(findUnknown({ constructor: 1 }, NAMES)).toBe('constructor')
  })

  it.each([
    ['kye', 'key'],
    ['pollIntervalMS', 'pollIntervalMs'],
    ['inclDead', 'includeDead'],
    ['destinaton', 'destination'],
  ])('%s is taken for %s', (slip, meant) => {
    expect(hintFor(slip, NAMES)).toBe(`; did you mean "${meant}"?`)
  })

  it('lists what there is when nothing is close, and does not compare endless names', () => {
    expect(hintFor('somethingElse', NAMES)).toContain('there are: destination, type')
    expect(hintFor('--all', new Set(['--url', '--destination']))).toBe('; there are: --url, --destination')
    expect(hintFor('k'.repeat(10_000_000), NAMES)).toContain('there are')
  })

  it('are refused without their value, which may be a secret under the wrong name', () => {
    const refusal = expect.objectContaining({ detail: { option: 'kye', value: 'string' } })
    expect(() => refuseUnknown('target', { kye: 'postgres://me:secret@host/db' }, NAMES)).toThrow(refusal)
  })

  it('are refused with a code, as is what is no object', () => {
    for (const given of [{ kye: 1 }, null, undefined, 'x', 5, []]) {
      expect(() => refuseUnknown('target', given, NAMES)).toThrow(
        expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION' }),
      )
    }
    expect(() => refuseUnknown('target', { key: undefined }, NAMES)).not.toThrow()
  })
})
