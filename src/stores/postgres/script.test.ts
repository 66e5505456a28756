import { describe, expect, it } from 'vitest'
import { scriptOf } from './script.ts'

const one = (sql: string, ...params: (string | number | bigint | Uint8Array | null)[]): string =>
  scriptOf([{ sql, params }])

describe('several statements in one text', () => {
  it('writes values as literals that take their type from the cast', () => {
    expect(one('SELECT $1::int, $2::bigint, $3', 5, 9_007_199_254_740_993n, null)).toBe(
      "SELECT '5'::int, '9007199254740993'::bigint, NULL",
    )
    expect(one('SELECT $1', new Uint8Array([0, 255]))).toBe("SELECT '\\x00ff'")
  })

  it('lets no value out of its quotes', () => {
    expect(one('SELECT $1', "'; DROP TABLE x; --")).toBe("SELECT '''; DROP TABLE x; --'")
    expect(one('SELECT $1', "\\'; DROP TABLE x; --")).toBe("SELECT  E'\\\\''; DROP TABLE x; --'")
    expect(one('SELECT $1', '$2')).toBe("SELECT '$2'")
  })

  it('tells parameter 1 from parameter 11', () => {
    expect(one('$1 $11', 'a', 2, 3, 4, 5, 6, 7, 8, 9, 10, 'k')).toBe("'a' 'k'")
  })

  it('refuses what cannot be said', () => {
    expect(() => one('SELECT $1', 'a\0b')).toThrow(TypeError)
    expect(() => one('SELECT $2', 'a')).toThrow(RangeError)
  })

  it('joins statements', () => {
    expect(
      scriptOf([
        { sql: 'A $1', params: ['x'] },
        { sql: 'B $1', params: ['y'] },
      ]),
    ).toBe("A 'x';\nB 'y'")
  })
})
