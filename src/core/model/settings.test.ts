import { describe, expect, it } from 'vitest'
import { changeSettings, readSettings } from './settings.ts'

describe('settings as they are stored', () => {
  it('are changed by name; null takes one away, and nothing is left when the last one goes', () => {
    const first = changeSettings(null, { concurrency: 8, batchSize: 5 })
    expect(readSettings(first)).toEqual({ concurrency: 8, batchSize: 5 })
    const second = changeSettings(first, { concurrency: null, pollIntervalMs: 20 })
    expect(readSettings(second)).toEqual({ batchSize: 5, pollIntervalMs: 20 })
    expect(changeSettings(second, { batchSize: null, pollIntervalMs: null })).toBeNull()
    expect(changeSettings(null, {})).toBeNull()
  })

  it('of another release stay where they are and mean nothing here', () => {
    const stored = '{"concurrency":3,"timeoutMs":500,"colour":{"of":"tea"}}'
    expect(readSettings(stored)).toEqual({ concurrency: 3 })
    expect(JSON.parse(changeSettings(stored, { concurrency: null, batchSize: 2 }) ?? '')).toEqual({
      timeoutMs: 500,
      colour: { of: 'tea' },
      batchSize: 2,
    })
  })

  it.each(['', '{', 'null', '7', '[1]', '{"concurrency":"8"}', '{"concurrency":null}'])(
    'that cannot be read (%s) are as if there were none',
    (stored) => {
      expect(readSettings(stored)).toEqual({})
      expect(readSettings(changeSettings(stored, { concurrency: 2 }))).toEqual({ concurrency: 2 })
    },
  )
})
