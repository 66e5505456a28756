/**
 * Circuit breaker of one destination. An outage says nothing about an event, so while a destination cannot be
 * reached its deliveries wait with their attempts unspent.
 *
 * ```
 *            threshold outages in a row                      open time is over
 *   closed ──────────────────────────────► open ◄─────────┐ ─────────────────► halfOpen
 *      ▲                                                  │                        │
 *      │                                                  └── outage of the probe ─┤
 *      └───────────────── closeAfter answers in a row ─────────────────────────────┘
 * ```
 *
 * - closed: everything may be sent; any answer, a refusal too, starts the count anew.
 * - open: nothing may be sent. Each opening in a row lasts up to twice as long as the one before, from `openMs` to
 *   `maxOpenMs`, shortened at random by up to half so that processes do not come back together.
 * - halfOpen: one delivery at a time, the probe. Late results of earlier sends change nothing while it runs.
 *
 * Some events break the connection themselves, again and again. Waiting unspent they would block everybody for
 * ever, so an outage is a strike against its delivery; another strike counts only if some other delivery got an
 * answer since. From the `chargeAfter`-th strike on the delivery is to be charged: it spends an attempt after all.
 * When nothing gets through nobody is charged. Whoever shared a send with it has strikes too; so from the last one that
 * is free a delivery is to be sent by itself (`isNearCharge`), and an innocent one gets its answer before it is charged.
 */

import { InvalidOptionError } from '../errors.ts'
import { shown } from '../model/shown.ts'

export interface BreakerOptions {
  /** Outages in a row that open it. Default 3; 1 to 1,000. */
  readonly threshold: number
  /** Answers in a row that close a half-open one. Default 1; 1 to 1,000. */
  readonly closeAfter: number
  /** Strikes from which a delivery spends attempts. Default 3; 2 to 1,000. */
  readonly chargeAfter: number
  /** Shortest time open, in ms. Default 1,000; 1 to 3,600,000. */
  readonly openMs: number
  /** Longest time open, in ms. Default 30,000; `openMs` to 3,600,000. */
  readonly maxOpenMs: number
}

export const BREAKER_DEFAULTS: BreakerOptions = Object.freeze({
  threshold: 3,
  closeAfter: 1,
  chargeAfter: 3,
  openMs: 1_000,
  maxOpenMs: 30_000,
})

export type BreakerState = 'closed' | 'open' | 'halfOpen'

export interface BreakerSnapshot {
  readonly state: BreakerState
  readonly outagesInARow: number
  /** Openings since it was last closed. */
  readonly openings: number
  readonly waitMs: number
  readonly probe: string | null
  /** Deliveries with strikes against them. */
  readonly suspects: number
}

/** More suspects than this at once means that the destination is the problem, so the oldest may be forgotten. */
const MAX_SUSPECTS = 1_000

interface Suspicion {
  readonly strikes: number
  /** Value of `answers` at the last strike. */
  readonly answersThen: number
}

class Breaker {
  private readonly options: BreakerOptions
  private readonly random: () => number
  private readonly suspects = new Map<string, Suspicion>()
  private current: BreakerState = 'closed'
  private outagesInARow = 0
  private answersInARow = 0
  private openings = 0
  private openUntilMs = 0
  /** When it left the closed state; probes in between do not count. */
  private openedAtMs: number | null = null
  private probe: string | null = null
  /** Answers ever received, by which a strike sees whether anything got through since the last one. */
  private answers = 0

  constructor(options: Partial<BreakerOptions>, random: () => number) {
    this.options = resolveBreakerOptions(options)
    this.random = random
  }

  /** How many deliveries may be sent now. Asking reserves nothing; `admit` does. */
  allows(nowMs: number): 'all' | 'one' | 'none' {
    this.letTimePass(nowMs)
    if (this.current === 'closed') return 'all'
    return this.current === 'halfOpen' && this.probe === null ? 'one' : 'none'
  }

  /**
   * Call before a send; false means not now. When half-open the admitted delivery is the probe, and nothing else
   * is admitted until its outcome is reported or it is forgotten. A caller that itself sends one at a time while
   * `allows` says `one` may leave it out.
   */
  admit(deliveryId: string, nowMs: number): boolean {
    const allowed = this.allows(nowMs)
    if (allowed === 'one') this.probe = deliveryId
    return allowed !== 'none'
  }

  /** Milliseconds after which it is worth asking again; while a probe runs, its outcome is the better signal. */
  waitMs(nowMs: number): number {
    const allowed = this.allows(nowMs)
    if (allowed !== 'none') return 0
    return this.current === 'open' ? Math.max(1, Math.ceil(this.openUntilMs - nowMs)) : this.options.openMs
  }

  /** The destination could not be reached. `charge`: the delivery spends an attempt; `opened`: just now. */
  onOutage(deliveryId: string, nowMs: number): { readonly charge: boolean; readonly opened: boolean } {
    const charge = this.strike(deliveryId)
    this.letTimePass(nowMs)
    const opened = this.countOutage(deliveryId)
    if (opened) this.open(nowMs)
    return { charge, opened }
  }

  /** `recovered`: this closed the breaker, so the backlog should now start slowly. */
  onSuccess(deliveryId: string, nowMs: number): { readonly recovered: boolean } {
    return { recovered: this.answered(deliveryId, nowMs) }
  }

  /** The destination answered by refusing the event: it can be reached, and the delivery is no suspect. */
  onRefusal(deliveryId: string, nowMs: number): { readonly recovered: boolean } {
    return { recovered: this.answered(deliveryId, nowMs) }
  }

  /** The delivery is no longer ours, or was not sent after all; a probe's place becomes free. */
  forget(deliveryId: string): void {
    this.suspects.delete(deliveryId)
    if (this.probe === deliveryId) this.probe = null
  }

  isSuspect(deliveryId: string): boolean {
    return this.suspects.has(deliveryId)
  }

  /** Its next strike may be charged, so it is to be sent by itself: nobody else shall be charged for what it does. */
  isNearCharge(deliveryId: string): boolean {
    return (this.suspects.get(deliveryId)?.strikes ?? 0) >= this.options.chargeAfter - 1
  }

  state(nowMs: number): BreakerState {
    this.letTimePass(nowMs)
    return this.current
  }

  /** For how long it has not been closed; null while it is. */
  openForMs(nowMs: number): number | null {
    return this.openedAtMs === null ? null : Math.max(0, nowMs - this.openedAtMs)
  }

  snapshot(nowMs: number): BreakerSnapshot {
    const waitMs = this.waitMs(nowMs)
    const { current: state, outagesInARow, openings, probe } = this
    return { state, outagesInARow, openings, waitMs, probe, suspects: this.suspects.size }
  }

  private letTimePass(nowMs: number): void {
    if (this.current !== 'open' || !(nowMs >= this.openUntilMs)) return
    this.current = 'halfOpen'
    this.answersInARow = 0
    this.probe = null
  }

  /** Whether a result decides about a half-open breaker: the probe's does, or any if there is no probe. */
  private endsProbe(deliveryId: string): boolean {
    if (this.current !== 'halfOpen' || (this.probe !== null && this.probe !== deliveryId)) return false
    this.probe = null
    return true
  }

  /** Whether this outage opens the breaker. */
  private countOutage(deliveryId: string): boolean {
    if (this.current !== 'closed') return this.endsProbe(deliveryId)
    this.outagesInARow += 1
    return this.outagesInARow >= this.options.threshold
  }

  private open(nowMs: number): void {
    const { openMs, maxOpenMs } = this.options
    this.current = 'open'
    this.openedAtMs ??= nowMs
    this.openings += 1
    this.probe = null
    const fullMs = Math.min(maxOpenMs, openMs * 2 ** (this.openings - 1))
    this.openUntilMs = nowMs + Math.max(openMs, fullMs * (0.5 + this.random() / 2))
  }

  private answered(deliveryId: string, nowMs: number): boolean {
    this.answers += 1
    this.suspects.delete(deliveryId)
    this.letTimePass(nowMs)
    if (this.current === 'closed') this.outagesInARow = 0
    if (!this.endsProbe(deliveryId)) return false
    this.answersInARow += 1
    if (this.answersInARow < this.options.closeAfter) return false
    this.current = 'closed'
    this.openedAtMs = null
    this.outagesInARow = 0
    this.openings = 0
    return true
  }

  /** Whether the delivery is to be charged. */
  private strike(deliveryId: string): boolean {
    const earlier = this.suspects.get(deliveryId)
    // Own answers need no care here: they end the suspicion, so what came since came from others.
    if (earlier !== undefined && earlier.answersThen === this.answers) return false
    const strikes = (earlier?.strikes ?? 0) + 1
    // Set anew rather than changed, so that the map's order is the order of the last strikes.
    this.suspects.delete(deliveryId)
    this.suspects.set(deliveryId, { strikes, answersThen: this.answers })
    if (this.suspects.size > MAX_SUSPECTS) this.suspects.delete(this.suspects.keys().next().value as string)
    return strikes >= this.options.chargeAfter
  }
}

export type { Breaker }

/** @param random uniform in [0, 1) */
export const createBreaker = (options: Partial<BreakerOptions>, random: () => number): Breaker =>
  new Breaker(options, random)

function resolveBreakerOptions(given: Partial<BreakerOptions>): BreakerOptions {
  const pick = (name: keyof BreakerOptions, lowest: number, highest: number): number => {
    const value: unknown = given[name] ?? BREAKER_DEFAULTS[name]
    if (Number.isInteger(value) && (value as number) >= lowest && (value as number) <= highest)
      return value as number
    const message = `breaker.${name} must be a whole number from ${lowest} to ${highest}, not ${shown(value)}.`
    throw new InvalidOptionError(message, { option: `breaker.${name}`, value })
  }
  const openMs = pick('openMs', 1, 3_600_000)
  return Object.freeze({
    threshold: pick('threshold', 1, 1_000),
    closeAfter: pick('closeAfter', 1, 1_000),
    chargeAfter: pick('chargeAfter', 2, 1_000),
    openMs,
    maxOpenMs: pick('maxOpenMs', openMs, 3_600_000),
  })
}
