import type { Headers } from '../model/event.ts'
import { HEADER_LIMITS } from '../model/headers.ts'
import type { DeliverTrace, PublishTrace, Tracing } from '../spi/index.ts'

/** Runs it, and makes nothing of it when it throws. */
const attempt = <T>(fn: () => T): T | null => {
  try {
    return fn()
  } catch {
    // A trace is not worth an event; and a log line for each would be a flood.
    return null
  }
}

const NO_HEADERS: Headers = Object.freeze({})

const once = (trace: PublishTrace): PublishTrace => ({
  headers: attempt(() => trace.headers) ?? NO_HEADERS,
  end: (error) => void attempt(() => trace.end(error)),
})

/** Whatever `run` does, the delivery is made once. */
const runOnce = <T>(trace: DeliverTrace, fn: () => T): T => {
  let made: { readonly value: T } | { readonly error: unknown } | null = null
  attempt(() =>
    trace.run(() => {
      if (made !== null) return
      try {
        made = { value: fn() }
      } catch (error) {
        made = { error }
      }
    }),
  )
  const result = made as { readonly value: T } | { readonly error: unknown } | null
  if (result === null) return fn()
  if ('error' in result) throw result.error
  return result.value
}

/** One that is written by hand may forget to answer. */
const isTrace = <T extends object>(trace: T | null | undefined): trace is T =>
  typeof trace === 'object' && trace !== null

/** The same tracing, but nothing that it does decides whether an event is stored or delivered. */
export const guardedTracing = (tracing: Tracing): Tracing => ({
  publish(events) {
    const trace = attempt(() => tracing.publish(events))
    return isTrace(trace) ? once(trace) : null
  },
  deliver(made) {
    const trace = attempt(() => tracing.deliver(made))
    if (!isTrace(trace)) return null
    const headers: unknown = attempt(() => trace.headers)
    return {
      headers: Array.isArray(headers) ? (headers as readonly Headers[]) : [],
      run: (fn) => runOnce(trace, fn),
      end: (verdicts) => void attempt(() => trace.end(verdicts)),
    }
  },
})

const sizeOf = (headers: Headers): number => {
  let bytes = 0
  for (const name in headers) bytes += name.length + Buffer.byteLength(headers[name] as string)
  return bytes
}

/** Most bytes of headers that are stored, those of a trace included. */
const MOST_BYTES = HEADER_LIMITS.totalBytes

/**
 * Headers of a trace beside those of the application, which win. What would not fit is left out, one by one: a trace
 * must not make an event impossible.
 */
export const withTrace = (own: Headers, trace: Headers): Headers => {
  const taken = new Set(Object.keys(own).map((name) => name.toLowerCase()))
  let count = taken.size
  let bytes = sizeOf(own)
  const all = Object.assign(Object.create(null) as Record<string, string>, own)
  for (const name in trace) {
    const value: unknown = trace[name]
    if (typeof value !== 'string') continue
    const size = name.length + Buffer.byteLength(value)
    const fits =
      count < HEADER_LIMITS.count && bytes + size <= MOST_BYTES && value.length <= HEADER_LIMITS.valueChars
    if (!fits || taken.has(name.toLowerCase())) continue
    all[name] = value
    count += 1
    bytes += size
  }
  return Object.freeze(all)
}

/** On the way on: the place of the attempt in the trace, instead of the one that was stored. */
export const carried = (stored: Headers, trace: Headers | null | undefined): Headers => {
  if (trace === undefined || trace === null) return stored
  const names = Object.keys(trace).filter((name) => typeof trace[name] === 'string')
  const replaced = new Set(names.map((name) => name.toLowerCase()))
  const all = Object.create(null) as Record<string, string>
  for (const name in stored) if (!replaced.has(name.toLowerCase())) all[name] = stored[name] as string
  for (const name of names) all[name] = trace[name] as string
  return Object.freeze(all)
}
