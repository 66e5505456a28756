/**
 * From what happened to what is written: the result of an attempt becomes an outcome. Pure, so that the rules
 * about attempts, limits and delays can be read and tested in one place.
 */
import type { Delivery, Outcome } from '../model/delivery.ts'
import { plain } from '../model/plain.ts'
import type { ResolvedDestination } from '../options.ts'
import { describeError } from '../policy/failure.ts'
import { policyForType, retryDelayMs } from '../policy/retry.ts'
import type { Settlement } from '../spi/index.ts'
import { attemptNumber, type DeliveryResult } from './deliver.ts'

export interface Decision {
  readonly outcome: Outcome
  /** Attempts spent afterwards. */
  readonly attempts: number
  /** What comes behind it in its key has to wait. */
  readonly holdsKey: boolean
}

const DONE: Outcome = Object.freeze({ kind: 'done' })

/** `outage` is not decided here: the delivery waits as if nobody had touched it. */
export const decide = (
  delivery: Delivery,
  result: DeliveryResult,
  destination: ResolvedDestination,
  random: () => number,
): Decision => {
  const attempt = attemptNumber(delivery)
  if (result.verdict === 'done') return { outcome: DONE, attempts: attempt, holdsKey: false }
  const { failure, counted } = result
  const policy = policyForType(destination.retry, delivery.event.type)
  if (result.verdict === 'dead' || (counted && attempt >= policy.maxAttempts)) {
    return {
      outcome: { kind: 'dead', failure },
      attempts: attempt,
      holdsKey: deadHoldsKey(delivery, destination),
    }
  }
  const attempts = counted ? attempt : delivery.attempts
  const delayMs = Math.round(result.delayMs ?? retryDelayMs(policy, Math.max(1, attempts), random))
  return { outcome: { kind: 'retry', delayMs, counted, failure }, attempts, holdsKey: true }
}

/** The result of an attempt that ended in an error of our own, or of a callback that never should throw. */
export const unexpected = (delivery: Delivery, error: unknown): DeliveryResult => {
  const { code, message, stack } = describeError(error)
  const attempt = attemptNumber(delivery)
  const failure = { attempt, durationMs: 0, code: code ?? null, message, stack: stack ?? null }
  return { verdict: 'retry', error, failure, delayMs: null, counted: true }
}

/** Under `block` and `park` a dead head keeps its key waiting for an operator. */
const deadHoldsKey = (delivery: Delivery, destination: ResolvedDestination): boolean =>
  destination.deadHead !== 'skip' && delivery.event.key !== null

/** No literal, because there are thousands: see "Memory" in ARCHITECTURE.md. */
export const DeliverySettlement = plain<
  [delivery: Delivery, outcome: Outcome, attempts: number, destination: ResolvedDestination],
  Settlement
>(function (delivery, outcome, attempts, destination) {
  this.delivery = delivery
  this.outcome = outcome
  this.attempts = attempts
  this.deadHoldsKey = deadHoldsKey(delivery, destination)
  this.deadParked = this.deadHoldsKey && destination.deadHead === 'park'
})
