/**
 * Publishers for tests: one that remembers, and one that also fails as it is told. They stand for a broker and
 * the network before it, so they know what was received (it arrived here) and what was accepted (it took effect).
 */
import { OutageError, PermanentError } from '../core/errors.ts'
import { type EventPattern, patternText } from '../core/options.ts'
import { compilePattern, matches } from '../core/policy/routing.ts'
import type { OutgoingDelivery, Publisher, Runtime, SendContext, SendResult } from '../core/spi/index.ts'
import { type Bell, createBell } from './bell.ts'

/**
 * - `error`: refused, worth another try        - `permanent`: refused for good
 * - `outage`: cannot be reached                - `lostReply`: accepted, but the answer never comes back
 * - `hang`: no answer until `release`, or until the delivery's signal is aborted
 */
export type FailureKind = 'error' | 'permanent' | 'outage' | 'lostReply' | 'hang'

export interface FailureScript {
  /** How it fails, or a function that returns the error (undefined accepts). `never` only records. Default `error`. */
  readonly fail?: FailureKind | 'never' | ((delivery: OutgoingDelivery) => unknown)
  /** Which deliveries fail: definitions, types, patterns or a function. Default all. */
  readonly events?: readonly EventPattern[] | EventPattern | ((delivery: OutgoingDelivery) => boolean)
  /** Fails this often and then accepts. Default always. */
  readonly times?: number
  /** Whether `times` counts for each event, or for all of them together. Default `event`. */
  readonly per?: 'event' | 'all'
  /** Every send takes this long, in ms of the runtime. Default 0. */
  readonly slowMs?: number
}

export interface ScriptedDestinationOptions extends FailureScript {
  /** Whose clock `slowMs` follows; the system's by default. */
  readonly runtime?: Pick<Runtime, 'schedule'>
  /** Most deliveries in one send. Default 1. */
  readonly maxBatch?: number
  readonly orderedPrefix?: boolean
}

export interface ScriptedDestination extends Publisher {
  /** Everything that arrived, failed or not, in order. */
  readonly received: readonly OutgoingDelivery[]
  /** What took effect, in order; an event twice is a duplicate. */
  readonly accepted: readonly OutgoingDelivery[]
  /** The batches as they came. */
  readonly sends: readonly (readonly OutgoingDelivery[])[]
  readonly closed: boolean
  /** From now on another script; counts start anew. */
  script(next: FailureScript): void
  /** Lets go what hangs: it is accepted, and nothing hangs from now on. */
  release(): void
  /** Resolves when at least so many deliveries have arrived. */
  waitForReceived(count: number): Promise<void>
  waitForAccepted(count: number): Promise<void>
}

const ACCEPTED: SendResult = Object.freeze({ ok: true })

const systemTimer: Pick<Runtime, 'schedule'> = {
  schedule(delayMs, fn) {
    const timer = setTimeout(fn, delayMs)
    return () => clearTimeout(timer)
  },
}

const concerns = (events: FailureScript['events']): ((delivery: OutgoingDelivery) => boolean) => {
  if (events === undefined) return () => true
  // A definition is a function too, but one that has a type.
  if (typeof events === 'function' && !('type' in events)) return events
  const list = (Array.isArray(events) ? events : [events]) as readonly EventPattern[]
  const patterns = list.map((pattern) => compilePattern(patternText(pattern)))
  return ({ event }) => patterns.some((pattern) => matches(pattern, event.type))
}

class Scripted implements ScriptedDestination {
  readonly received: OutgoingDelivery[] = []
  readonly accepted: OutgoingDelivery[] = []
  readonly sends: (readonly OutgoingDelivery[])[] = []
  readonly maxBatch: number
  readonly orderedPrefix: boolean
  closed = false
  readonly #timer: Pick<Runtime, 'schedule'>
  readonly #bell: Bell = createBell()
  readonly #failures = new Map<string, number>()
  #script: FailureScript
  #concerns: (delivery: OutgoingDelivery) => boolean
  #hanging: (() => void)[] = []

  constructor({ runtime, maxBatch, orderedPrefix, ...script }: ScriptedDestinationOptions) {
    this.#timer = runtime ?? systemTimer
    this.maxBatch = maxBatch ?? 1
    this.orderedPrefix = orderedPrefix ?? false
    this.#script = script
    this.#concerns = concerns(script.events)
  }

  script(next: FailureScript): void {
    this.#script = next
    this.#concerns = concerns(next.events)
    this.#failures.clear()
  }

  release(): void {
    if (this.#script.fail === 'hang') this.script({ ...this.#script, fail: 'never' })
    const hanging = this.#hanging
    this.#hanging = []
    for (const letGo of hanging) letGo()
  }

  async send(deliveries: readonly OutgoingDelivery[], context: SendContext): Promise<readonly SendResult[]> {
    this.sends.push(deliveries)
    this.received.push(...deliveries)
    this.#bell.ring()
    const { slowMs = 0 } = this.#script
    if (slowMs > 0) await new Promise<void>((resolve) => this.#timer.schedule(slowMs, resolve))
    const results: SendResult[] = []
    let broken: SendResult | null = null
    for (const delivery of deliveries) {
      // A place that keeps the order accepts nothing behind the first failure.
      const result: SendResult = broken ?? (await this.#answer(delivery, context))
      if (!result.ok && this.orderedPrefix) broken = result
      results.push(result)
    }
    this.#bell.ring()
    return results
  }

  async close(): Promise<void> {
    this.closed = true
  }

  waitForReceived(count: number): Promise<void> {
    return this.#bell.until(() => this.received.length >= count)
  }

  waitForAccepted(count: number): Promise<void> {
    return this.#bell.until(() => this.accepted.length >= count)
  }

  async #answer(delivery: OutgoingDelivery, { signal }: SendContext): Promise<SendResult> {
    const { fail = 'error' } = this.#script
    if (fail === 'never' || !this.#concerns(delivery) || !this.#stillFails(delivery))
      return this.#accept(delivery)
    if (typeof fail === 'function') {
      const error: unknown = fail(delivery)
      return error === undefined ? this.#accept(delivery) : { ok: false, error }
    }
    if (fail === 'hang') {
      const letGo = await this.#hang(signal)
      return letGo ? this.#accept(delivery) : { ok: false, error: signal.reason }
    }
    if (fail === 'lostReply') this.#accept(delivery)
    return { ok: false, error: errorOf(fail) }
  }

  #accept(delivery: OutgoingDelivery): SendResult {
    this.accepted.push(delivery)
    this.#bell.ring()
    return ACCEPTED
  }

  #stillFails(delivery: OutgoingDelivery): boolean {
    const { times, per = 'event' } = this.#script
    if (times === undefined) return true
    const counted = per === 'event' ? delivery.event.id : ''
    const failures = this.#failures.get(counted) ?? 0
    this.#failures.set(counted, failures + 1)
    return failures < times
  }

  /** False: it was told to stop. */
  #hang(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      this.#hanging.push(() => resolve(true))
      signal.addEventListener('abort', () => resolve(false), { once: true })
    })
  }
}

const errorOf = (kind: Exclude<FailureKind, 'hang'>): Error => {
  switch (kind) {
    case 'error':
      return new Error('the test destination refused the event')
    case 'permanent':
      return new PermanentError('the test destination refused the event for good')
    case 'outage':
      return new OutageError('the test destination cannot be reached')
    case 'lostReply':
      return new Error('the test destination accepted the event, but its answer was lost')
  }
}

/** A publisher that fails as scripted and remembers what it got. Without options everything is refused. */
export const failingDestination = (options: ScriptedDestinationOptions = {}): ScriptedDestination =>
  new Scripted(options)

/** A publisher that accepts everything and remembers it. */
export const recordingDestination = (
  options: Omit<ScriptedDestinationOptions, keyof FailureScript> & Pick<FailureScript, 'slowMs'> = {},
): ScriptedDestination => new Scripted({ ...options, fail: 'never' })
