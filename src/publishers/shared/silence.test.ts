import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { Silence } from './silence.ts'

beforeEach(() => {
  vi.useFakeTimers()
})

afterEach(() => {
  vi.useRealTimers()
})

const never = (): Promise<never> => new Promise(() => undefined)

describe('silence on a connection', () => {
  it('ends the wait of those who hear nothing', async () => {
    const waiting = new Silence().limit(100, never)
    await vi.advanceTimersByTimeAsync(100)
    expect(await waiting).toBeNull()
  })

  it('is broken for all who wait there, whoever is answered', async () => {
    const silence = new Silence()
    const waiting = silence.limit(100, never)
    for (let n = 0; n < 3; n += 1) {
      await vi.advanceTimersByTimeAsync(90)
      expect(await silence.limit(100, async () => 'answered')).toBe('answered')
      silence.broken()
    }
    await vi.advanceTimersByTimeAsync(99)
    const ended = vi.fn()
    void waiting.then(ended)
    await vi.advanceTimersByTimeAsync(0)
    expect(ended).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(await waiting).toBeNull()
    expect(vi.getTimerCount()).toBe(0)
  })
})
