/**
 * The ledger: one line per call of a listener. It is written before the call returns, so before the delivery can
 * be settled. Whatever is killed at whatever moment, a call that happened is in the file.
 */
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'

export type Fault = 'flaky' | 'poison' | 'outage' | 'crash'

export interface Call {
  readonly eventId: string
  readonly destination: string
  /** Above 1 when an operator sent it again. */
  readonly run: number
  readonly attempt: number
  readonly path: 'hot' | 'cold'
  readonly pid: number
  readonly ok: boolean
  /** What the demo did to this delivery; such a call says nothing about how fast the hot path is. */
  readonly fault: Fault | null
  /** Commit to the listener's start by the monotonic clock; null where the process did not see the commit. */
  readonly latencyMs: number | null
}

export interface CallLog {
  write(call: Call): void
  close(): void
}

export const openCallLog = (file: string, heard: (call: Call) => void): CallLog => {
  // Appending is atomic for lines this short, also when a killed process has just written to the same file.
  const descriptor = openSync(file, 'a')
  // Half a line of a killed process must not swallow the first line of the next one.
  if (!['', '\n'].includes(readFileSync(file, 'utf8').slice(-1))) writeSync(descriptor, '\n')
  return {
    write(call) {
      writeSync(descriptor, `${JSON.stringify(call)}\n`)
      heard(call)
    },
    close: () => closeSync(descriptor),
  }
}

export const readCalls = (file: string): Call[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    // A process that is killed while it writes leaves half a line, whose call was not over.
    .filter((line) => line.endsWith('}'))
    .map((line) => JSON.parse(line) as Call)
