import { describe, expect, it } from 'vitest'
import { shown, shownWithKind } from './shown.ts'

describe('a value in a message', () => {
  it('is shown as it is, or by its kind where it could be anything', () => {
    expect([1, 'x', null, undefined, true, 2n].map(shown)).toEqual([
      '1',
      'x',
      'null',
      'undefined',
      'true',
      '2',
    ])
    expect([[1], { a: 1 }, () => 1].map(shown)).toEqual(['a list', 'an object', 'a function'])
    expect([1000, '1000'].map(shownWithKind)).toEqual(['1000', 'the string "1000"'])
  })

  it('does not throw for what throws when it is looked at', () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    const hostile = { toString: () => expect.fail('it was made a string') }
    expect([proxy, hostile].map(shown)).toEqual(['an object', 'an object'])
  })
})
