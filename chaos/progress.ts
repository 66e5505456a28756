/** How a run goes: a bar where somebody is looking, a line now and then elsewhere. */
import type { RunOptions } from './run.ts'

const BAR = 30
const LINE_EVERY_MS = 10_000

export const createProgress = (minutes: number): RunOptions['progress'] => {
  let lastLine = Number.NEGATIVE_INFINITY
  let lastPhase = ''
  return ({ phase, share, committed, done, faults, doing }) => {
    const what = phase === 'faults' ? doing || 'nothing broken' : phase
    const numbers = `${committed} transactions, ${done} deliveries, ${faults} faults: ${what}`
    if (process.stderr.isTTY) {
      const full = Math.round(BAR * share)
      const end = phase === 'over' ? '\n' : ''
      process.stderr.write(`\r\u001b[K[${'#'.repeat(full)}${'.'.repeat(BAR - full)}] ${numbers}${end}`)
      return
    }
    const now = performance.now()
    if (now - lastLine < LINE_EVERY_MS && phase === lastPhase) return
    lastLine = now
    lastPhase = phase
    process.stderr.write(`${(minutes * share).toFixed(1)} of ${minutes} min: ${numbers}\n`)
  }
}
