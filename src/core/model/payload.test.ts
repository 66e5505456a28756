import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidEventError } from '../errors.ts'
import { checkBinary, checkJsonText, DEFAULT_PAYLOAD_LIMITS } from './payload.ts'

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

describe('checkJsonText', () => {
  it('keeps every valid text as it is', () => {
    const spaced = ' {"b" : 1.0 , "a":[1e3, "\\u0041\\\\u0000"], "a":{}}\n'
    expect(checkJsonText(spaced, LIMITS)).toEqual({ text: spaced, bytes: spaced.length })
    fc.assert(
      fc.property(fc.jsonValue(), fc.nat(3), (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        expect(checkJsonText(text, LIMITS)).toEqual({ text, bytes: Buffer.byteLength(text) })
      }),
    )
  })

  it.each([
    ['broken JSON', '{"a":', '$', 'invalid-json'],
    ['no JSON at all', '', '$', 'invalid-json'],
    ['a byte order mark', '\ufeff{}', '$', 'invalid-json'],
    ['an escaped U+0000', '{"a":["\\u0000"]}', '$.a[0]', 'nul'],
    ['an escaped U+0000 in a key', '{"\\u0000":1}', '$["\\u0000"]', 'nul'],
    ['U+0000 that a repeated key hides', '{"a":"\\u0000","a":1}', '$', 'nul'],
    ['half an escaped pair', '["\\ud83dx"]', '$[0]', 'lone-surrogate'],
    ['half a raw pair', '["\ud83d"]', '$[0]', 'lone-surrogate'],
    ['a number that no double holds', '{"n":[1,-1e999]}', '$.n[1]', 'not-finite'],
    ['a nesting beyond the limit', `${'['.repeat(65)}${']'.repeat(65)}`, `$${'[0]'.repeat(64)}`, 'too-deep'],
    ['a hidden nesting', `{"a":${'['.repeat(64)}${']'.repeat(64)},"a":1}`, '$', 'too-deep'],
    ['a text beyond the limit', JSON.stringify('x'.repeat(1_048_576)), '$', 'too-large'],
  ])('refuses %s', (_what, text, path, reason) => {
    expect(refusal(() => checkJsonText(text, LIMITS))).toMatchObject({ path, reason })
  })

  it('survives a nesting that would exhaust the stack', () => {
    const text = '['.repeat(300_000) + ']'.repeat(300_000)
    expect(refusal(() => checkJsonText(text, LIMITS)).reason).toBe('too-deep')
  })

  it('accepts brackets and numbers inside texts, and pairs written as two escapes', () => {
    for (const text of ['"[[[["', '["1e999","\\"{"]', '"\\ud83d\\ude00"', '[-1.5E+3,0]']) {
      expect(checkJsonText(text, { ...LIMITS, maxDepth: 1 }).text).toBe(text)
    }
  })

  it('does not repeat the text in its message', () => {
    expect(refusal(() => checkJsonText('{"secret" 1}', LIMITS)).message).not.toContain('secret')
  })

  it('refuses what is not text', () => {
    expect(refusal(() => checkJsonText({} as string, LIMITS)).reason).toBe('not-text')
  })
})

describe('checkBinary', () => {
  it('copies, so that later writes by the caller change nothing', () => {
    for (const given of [Uint8Array.of(1, 2, 3), Buffer.from([0, 1, 2, 3]).subarray(1)]) {
      const copy = checkBinary(given, LIMITS)
      given.fill(9)
      expect(copy).toEqual(Uint8Array.of(1, 2, 3))
      expect(copy).not.toBeInstanceOf(Buffer)
    }
  })

  it('refuses what is too large and what is not bytes', () => {
    expect(refusal(() => checkBinary(new Uint8Array(5), { maxBytes: 4 })).reason).toBe('too-large')
    for (const wrong of ['text', [1], new DataView(new ArrayBuffer(1)), new Uint16Array(1), null]) {
      expect(refusal(() => checkBinary(wrong as unknown as Uint8Array, { maxBytes: 4 })).reason).toBe(
        'not-bytes',
      )
    }
  })
})
