/**
 * Proves that the core touches neither real time nor real chance: while a run lasts, the globals that would give
 * it either throw. Only calls that come from the library or the simulator are refused, because a test runner in
 * the same process has a right to its timers.
 */
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

  globalThis.Date = TrappedDate as DateConstructor
  Math.random = trapped('Math.random', realRandom)
  for (const [i, name] of timers.entries()) {
    Object.assign(globalThis, { [name]: trapped(name, realTimers[i] as never) })
  }
  return () => {
    globalThis.Date = RealDate
    Math.random = realRandom
    for (const [i, name] of timers.entries()) Object.assign(globalThis, { [name]: realTimers[i] })
  }
}
