/**
 * The real world: clocks, timers, chance and the process. The only file of the core that touches them, so
 * that everything else runs unchanged under the seeded simulator.
 */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { performance } from 'node:perf_hooks'
import process from 'node:process'
import type { Logger, LogLevel, Runtime } from '../spi/index.ts'
import { createJsonLogger } from './logger.ts'

/** Timers count in 32 bits; Node fires a longer one at once, which would turn a long wait into a busy loop. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1

const timerDelay = (delayMs: number): number =>
  // NaN would become 1 ms as well; that is the best answer to it, and the comparison is false for it.
  delayMs >= 1 ? Math.min(Math.ceil(delayMs), LONGEST_TIMER_MS) : 0

export const createSystemRuntime = (): Runtime => ({
  wallNow: () => Date.now(),
  monotonicNow: () => performance.now(),
  random: () => Math.random(),
  randomBytes: (size) => randomBytes(size),
  schedule(delayMs, fn, options) {
    const timer = setTimeout(fn, timerDelay(delayMs))
    if (options?.background === true) timer.unref()
    return () => clearTimeout(timer)
  },
  yield: () => new Promise((resolve) => setImmediate(resolve)),
  processName: `${hostname()}:${process.pid}`,
})

/** JSON lines on standard error, which leaves standard output to the application. */
export const createConsoleLogger = (options: { readonly level?: LogLevel } = {}): Logger =>
  createJsonLogger({
    ...options,
    wallNow: () => Date.now(),
    write: (line) => process.stderr.write(`${line}\n`),
  })
