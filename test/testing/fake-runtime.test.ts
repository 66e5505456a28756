import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../src/testing/index.ts'

describe('createFakeRuntime', () => {
  it('stands still until it is advanced, then runs timers in order of their time', async () => {
    const runtime = createFakeRuntime({ startAt: 1_000 })
    const log: string[] = []
    const note = (text: string) => () => void log.push(`${text}@${runtime.wallNow()}`)
    runtime.schedule(20, note('second'))
    runtime.schedule(10, note('first'))
    runtime.schedule(20, note('third'))
    const cancel = runtime.schedule(15, note('never'))
    cancel()
    expect(runtime.nextTimerInMs).toBe(10)
    await runtime.settle()
    expect(log).toEqual([])
    await runtime.advance(30)
    expect(log).toEqual(['first@1010', 'second@1020', 'third@1020'])
    expect(runtime.now).toEqual(new Date(1_030))
    expect(runtime.monotonicNow()).toBe(30)
    expect(runtime.nextTimerInMs).toBeNull()
  })

  it('runs what follows from a timer before the next one', async () => {
    const runtime = createFakeRuntime()
    const log: string[] = []
    const follow = async (): Promise<void> => {
      for (let i = 0; i < 5; i += 1) await runtime.yield()
      await Promise.resolve()
      log.push('after the first')
      runtime.schedule(0, () => void log.push('at once'))
    }
    runtime.schedule(1, () => void follow())
    runtime.schedule(2, () => void log.push('second'))
    await runtime.advance(2)
    expect(log).toEqual(['after the first', 'at once', 'second'])
  })

  it('runs timers that were scheduled while it advances, if they fall within', async () => {
    const runtime = createFakeRuntime()
    let ticks = 0
    const tick = (): void => {
      ticks += 1
      runtime.schedule(10, tick)
    }
    tick()
    await runtime.advance(100)
    expect(ticks).toBe(11)
  })

  it('runs a timer without delay by itself', async () => {
    const runtime = createFakeRuntime()
    await new Promise<void>((resolve) => runtime.schedule(0, resolve))
  })

  it('is the same for the same seed and different for another', () => {
    const draw = (seed: number) => {
      const runtime = createFakeRuntime({ seed })
      return [runtime.random(), runtime.random(), ...runtime.randomBytes(16)]
    }
    expect(draw(7)).toEqual(draw(7))
    expect(draw(7)).not.toEqual(draw(8))
    for (const value of draw(7).slice(0, 2)) expect(value >= 0 && value < 1).toBe(true)
  })

  it('can stall: time passes, and what came due runs afterwards', async () => {
    const runtime = createFakeRuntime({ startAt: 0 })
    const at: number[] = []
    runtime.schedule(10, () => void at.push(runtime.monotonicNow()))
    runtime.stall(1_000)
    expect(at).toEqual([])
    await runtime.advance(0)
    expect(at).toEqual([1_000])
    expect(runtime.wallNow()).toBe(1_000)
  })

  it('steps the wall clock alone', async () => {
    const runtime = createFakeRuntime({ startAt: 5_000_000 })
    runtime.stepWallClock(-3_600_000)
    await runtime.advance(10)
    expect(runtime.wallNow()).toBe(5_000_000 - 3_600_000 + 10)
    expect(runtime.monotonicNow()).toBe(10)
  })

  it('refuses to go back', async () => {
    await expect(createFakeRuntime().advance(-1)).rejects.toThrow(RangeError)
  })
})
