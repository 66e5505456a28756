/**
 * Proves that the core touches neither real time nor real chance: while a run lasts, the globals that would give
 * it either throw. Only calls that come from the library or the simulator are refused, because a test runner in
 * the same process has a right to its timers.
 */
import { AsyncLocalStorage } from 'node:async_hooks'

const OURS = /[\\/](?:src|simulator)[\\/]/

const refuse = (name: string): void => {
  const { stack = '' } = new Error(name)
  const caller = stack.split('\n').slice(3, 8).join('\n')
  if (OURS.test(caller)) throw new Error(`${name} was called in a simulated run: go through Runtime`)
}

type Timers = 'setTimeout' | 'setInterval' | 'setImmediate'

const trapped = <F extends (...args: never[]) => unknown>(name: string, real: F): F =>
  ((...args: Parameters<F>) => {
    refuse(name)
    return real(...args)
  }) as F

/**
 * Until Node 24 every storage that was ever used is looked at for every promise. A run creates dozens of them, so
 * they are switched off at its end; otherwise each seed would be slower than the one before.
 */
const collectStorages = (): (() => void) => {
  const used = new Set<AsyncLocalStorage<unknown>>()
  const { prototype } = AsyncLocalStorage
  const { run } = prototype
  prototype.run = function (this: AsyncLocalStorage<unknown>, ...args: Parameters<typeof run>) {
    used.add(this)
    return Reflect.apply(run, this, args)
  } as typeof run
  return () => {
    prototype.run = run
    for (const storage of used) storage.disable()
  }
}

/** Puts the traps up; the function it returns takes them down. */
export const setTraps = (): (() => void) => {
  const RealDate = Date
  const realRandom = Math.random
  const timers: Timers[] = ['setTimeout', 'setInterval', 'setImmediate']
  const realTimers = timers.map((name) => globalThis[name])

  class TrappedDate extends RealDate {
    constructor(...args: [] | [number]) {
      if (args.length === 0) refuse('new Date()')
      super(...(args as [number]))
    }
    static override now(): number {
      refuse('Date.now')
      return RealDate.now()
    }
  }

  const dropStorages = collectStorages()
  globalThis.Date = TrappedDate as DateConstructor
  Math.random = trapped('Math.random', realRandom)
  for (const [i, name] of timers.entries()) {
    Object.assign(globalThis, { [name]: trapped(name, realTimers[i] as never) })
  }
  return () => {
    dropStorages()
    globalThis.Date = RealDate
    Math.random = realRandom
    for (const [i, name] of timers.entries()) Object.assign(globalThis, { [name]: realTimers[i] })
  }
}
