import { describe, expect, it } from 'vitest'
import { mutexOfHandle, mutexOfPath, WriteMutex } from './write-mutex.ts'

/** Timers that only fire when they are told to. */
const manualTimers = () => {
  const timers: (() => void)[] = []
  const schedule = (_delayMs: number, fn: () => void) => {
    timers.push(fn)
    return () => {
      timers.splice(timers.indexOf(fn), 1)
    }
  }
  return { runtime: { schedule }, timers }
}

describe('the write mutex', () => {
  it('lets one in at a time, first come first served', async () => {
    const { runtime } = manualTimers()
    const mutex = new WriteMutex()
    const order: number[] = []
    await Promise.all(
      [1, 2, 3].map(async (n) => {
        const release = await mutex.acquire(1_000, runtime)
        order.push(n)
        await Promise.resolve()
        order.push(-n)
        release?.()
      }),
    )
    expect(order).toEqual([1, -1, 2, -2, 3, -3])
    expect(mutex.held).toBe(false)
  })

  it('gives up waiting after the timeout and does not pass the turn to the one who left', async () => {
    const { runtime, timers } = manualTimers()
    const mutex = new WriteMutex()
    const first = await mutex.acquire(10, runtime)
    const late = mutex.acquire(10, runtime)
    const patient = mutex.acquire(10, runtime)
    timers[0]?.()
    expect(await late).toBeNull()
    first?.()
    const release = await patient
    expect(release).not.toBeNull()
    release?.()
    expect(mutex.held).toBe(false)
  })

  it('is released once, however often it is asked', async () => {
    const { runtime } = manualTimers()
    const mutex = new WriteMutex()
    const first = await mutex.acquire(10, runtime)
    const second = mutex.acquire(10, runtime)
    first?.()
    first?.()
    await second
    expect(mutex.held).toBe(true)
  })

  it('is one per file, and forgotten when nobody uses the file', () => {
    const [one, two] = [mutexOfPath('/x/a.db'), mutexOfPath('/x/a.db')]
    expect(one.mutex).toBe(two.mutex)
    expect(mutexOfPath('/x/b.db').mutex).not.toBe(one.mutex)
    one.dispose()
    one.dispose()
    const three = mutexOfPath('/x/a.db')
    expect(three.mutex).toBe(two.mutex)
    two.dispose()
    three.dispose()
    expect(mutexOfPath('/x/a.db').mutex).not.toBe(one.mutex)
  })

  it('is one per handle for databases without a file', () => {
    const handle = {}
    expect(mutexOfHandle(handle)).toBe(mutexOfHandle(handle))
    expect(mutexOfHandle({})).not.toBe(mutexOfHandle(handle))
  })
})
