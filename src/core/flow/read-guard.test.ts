import { describe, expect, it } from 'vitest'
import { ReadGuard } from './read-guard.ts'

const openRead = (guard: ReadGuard): { end(): Promise<void> } => {
  let end = (): void => undefined
  const read = guard.during(() => new Promise<void>((resolve) => (end = resolve)))
  return {
    end: async () => {
      end()
      await read
    },
  }
}

describe('the read guard', () => {
  it('runs at once when no read is under way', () => {
    let ran = false
    new ReadGuard().after(() => {
      ran = true
    })
    expect(ran).toBe(true)
  })

  it('waits for the reads that are under way, and not for later ones', async () => {
    const guard = new ReadGuard()
    const seen: string[] = []
    const first = openRead(guard)
    guard.after(() => seen.push('a'))
    const second = openRead(guard)
    guard.after(() => seen.push('b'))
    await first.end()
    expect(seen).toEqual(['a'])
    await second.end()
    expect(seen).toEqual(['a', 'b'])
  })

  it('lets go when a read fails', async () => {
    const guard = new ReadGuard()
    let fail = (_: Error): void => undefined
    const read = guard.during(() => new Promise<void>((_, reject) => (fail = reject)))
    const passed = new Promise<void>((resolve) => guard.after(resolve))
    fail(new Error('lost'))
    await expect(read).rejects.toThrow('lost')
    await passed
  })
})
