import { describe, expect, it } from 'vitest'
import type { Runtime } from '../../core/spi/index.ts'
import { Watchdog } from './watchdog.ts'

/** Timers that go off when told to. */
const handTimers = () => {
  const timers: (() => void)[] = []
  let set = 0
  const runtime = {
    schedule: (_delayMs: number, fn: () => void) => {
      set += 1
      timers.push(fn)
      return () => undefined
    },
  } as unknown as Runtime
  return {
    runtime,
    set: () => set,
    waiting: () => timers.length,
    goOff: () => {
      for (const fn of timers.splice(0)) fn()
    },
  }
}

const newAnswer = () => {
  let resolve!: (value: string) => void
  let reject!: (error: unknown) => void
  const promise = new Promise<string>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}

describe('a watchdog', () => {
  it('hands on answers and errors, with one timer for all of them', async () => {
    const { runtime, set } = handTimers()
    const watchdog = new Watchdog(runtime, 1_000)
    const refused = new Error('refused')
    const answers = Array.from({ length: 100 }, (_, n) => watchdog.watch(Promise.resolve(n)))
    const failed = watchdog.watch(Promise.reject(refused))
    expect(await Promise.all(answers)).toEqual(Array.from({ length: 100 }, (_, n) => n))
    await expect(failed).rejects.toBe(refused)
    expect(set()).toBe(1)
  })

  it('gives up what has waited for the whole limit, and nothing younger', async () => {
    const { runtime, goOff } = handTimers()
    const watchdog = new Watchdog(runtime, 1_000)
    const [old, young] = [newAnswer(), newAnswer()]
    const given = watchdog.watch(old.promise)
    const outcome = given.catch((error: Error) => error.message)
    goOff()
    const later = watchdog.watch(young.promise)
    for (let quarter = 0; quarter < 4; quarter += 1) goOff()
    expect(await outcome).toBe('Query read timeout')
    young.resolve('in time')
    expect(await later).toBe('in time')
    // Whatever comes of it now, nobody is told twice, and nobody's process ends.
    old.reject(new Error('Connection terminated'))
  })

  it('counts an answer that comes in the last quarter', async () => {
    const { runtime, goOff } = handTimers()
    const watchdog = new Watchdog(runtime, 1_000)
    const answer = newAnswer()
    const given = watchdog.watch(answer.promise)
    for (let quarter = 0; quarter < 4; quarter += 1) goOff()
    answer.resolve('just in time')
    expect(await given).toBe('just in time')
    goOff()
  })

  it('rests while nothing is on its way', async () => {
    const { runtime, goOff, waiting } = handTimers()
    const watchdog = new Watchdog(runtime, 1_000)
    await watchdog.watch(Promise.resolve())
    expect(waiting()).toBe(1)
    goOff()
    expect(waiting()).toBe(0)
    void watchdog.watch(new Promise(() => undefined)).catch(() => undefined)
    expect(waiting()).toBe(1)
  })
})
