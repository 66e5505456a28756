import { describe, expect, it } from 'vitest'
import { literal, portableLiteral, textOf } from './script.ts'

describe('several statements in one text', () => {
  it('writes values as literals', () => {
    expect(textOf({ sql: 'SELECT ?, ?, ?, ?', params: [5, 9_007_199_254_740_993n, null, 'a'] })).toBe(
      "SELECT 5, 9007199254740993, NULL, 'a'",
    )
    expect(literal(new Uint8Array([0, 255]))).toBe("X'00ff'")
  })

  it('lets no value out of its quotes', () => {
    expect(literal("'; DROP TABLE x; -- ")).toBe("'''; DROP TABLE x; -- '")
    expect(literal("\\'; DROP TABLE x; -- ")).toBe("'\\\\''; DROP TABLE x; -- '")
    expect(literal('a\0b\x1a')).toBe("'a\\0b\\Z'")
  })

  it('takes a question mark inside a text for what it is', () => {
    expect(textOf({ sql: `SELECT ${literal("what's \\?")}, ?`, params: ['why?'] })).toBe(
      "SELECT 'what''s \\\\?', 'why?'",
    )
    expect(textOf({ sql: "SELECT '?'", params: [] })).toBe("SELECT '?'")
  })

  it('writes the same for every sql_mode and character set', () => {
    const [everything, ascii] = [portableLiteral(true), portableLiteral(false)]
    const long = 'é'.repeat(5_000)
    expect(everything(long)).toBe(`_utf8mb4'${long}'`)
    expect(ascii(long)).toBe(`_utf8mb4 X'${'c3a9'.repeat(5_000)}'`)
    expect(everything('é')).toBe("_utf8mb4 X'c3a9'")
    expect(everything('a\\b')).toBe("_utf8mb4 X'615c62'")
    expect(ascii("it's")).toBe("_utf8mb4'it''s'")
    expect(ascii('∧')).toBe("_utf8mb4 X'e288a7'")
    expect(everything(new Uint8Array([1]))).toBe("X'01'")
    expect(everything(null)).toBe('NULL')
  })

  it('refuses what cannot be said', () => {
    expect(() => textOf({ sql: 'SELECT ?, ?', params: ['a'] })).toThrow(RangeError)
    expect(() => textOf({ sql: 'SELECT ?', params: ['a', 'b'] })).toThrow(RangeError)
    expect(() => literal(Number.NaN)).toThrow(TypeError)
  })
})
