/**
 * Stage 5: a batch is carried to its destination.
 *
 * Receives  deliveries that a worker took, all of one destination.
 * Hands on  one result per delivery; whatever a listener or publisher does, this never throws.
 * Guarantees
 * - The signal is aborted at the timeout, or shortly before the hard deadline; whoever does not end soon after it is
 *   given up. In between a publisher can say what arrived and what did not.
 * - However an attempt ends, nothing keeps its signal, and its receiver can see that it is over.
 * - A failure is classified in one place, `policy/failure.ts`, and described within bounds.
 */
import { ERROR_CODES, OutboxError } from '../errors.ts'
import type { AttemptFailure, Delivery } from '../model/delivery.ts'
import type { ResolvedDestination } from '../options.ts'
import { classify, describeError, type Verdict } from '../policy/failure.ts'
import { CHANNELS, tell } from '../runtime/channels.ts'
import { carried } from '../runtime/tracing.ts'
import type { DeliverTrace, Logger, Runtime, SendResult, TracedVerdict, Tracing } from '../spi/index.ts'
import { LazyContext, type ReceiveContext, type Stopping } from './receive-context.ts'

/** What stands at the end of a destination: a publisher, or the listeners of this process. */
export interface Receiver {
  /** One result per delivery, in order. May throw or reject; that is then the result of all of them. */
  receive(
    deliveries: readonly Delivery[],
    context: ReceiveContext,
  ): Promise<readonly SendResult[]> | readonly SendResult[]
  /** Whether a failure to connect says something about the place rather than about the event. */
  readonly kind: 'publisher' | 'listeners'
}

export type DeliveryResult =
  | { readonly verdict: 'done' }
  | {
      readonly verdict: Verdict
      readonly error: unknown
      readonly failure: AttemptFailure
      /** Asked for by the receiver; null leaves it to the retry policy. */
      readonly delayMs: number | null
      readonly counted: boolean
    }

const DONE: DeliveryResult = Object.freeze({ verdict: 'done' })

export interface JudgeOptions {
  readonly destination: ResolvedDestination
  readonly receiver: Pick<Receiver, 'kind'>
  readonly logger: Logger
}

export interface DeliverOptions extends JudgeOptions {
  readonly receiver: Receiver
  readonly hardDeadlineMs: number
  readonly runtime: Runtime
  readonly tracing: Tracing | null
}

/** Whoever was told to stop gets this long before it is left behind, or less where the hard deadline is near. */
const ABORT_GRACE_MS = 1_000

export const attemptNumber = (delivery: Delivery): number =>
  delivery.attemptSpent ? delivery.attempts : delivery.attempts + 1

export const deliver = async (
  batch: readonly Delivery[],
  options: DeliverOptions,
  stopping: Stopping,
): Promise<readonly DeliveryResult[]> => {
  const { runtime, tracing } = options
  const startedAt = runtime.monotonicNow()
  const trace = tracing === null ? null : begin(batch, options, tracing)
  let results: readonly SendResult[]
  try {
    const received =
      trace === null
        ? receiveInTime(batch, options, stopping)
        : trace.run(() => receiveInTime(travelling(batch, trace, options), options, stopping))
    results = checkResults(await received, batch.length)
  } catch (error) {
    const failed: SendResult = { ok: false, error }
    results = batch.map(() => failed)
  }
  const durationMs = Math.round(runtime.monotonicNow() - startedAt)
  const judged = batch.map((delivery, i) => judge(delivery, results[i] as SendResult, durationMs, options))
  trace?.end(judged.map(tracedVerdict))
  if (CHANNELS.attempt.hasSubscribers) announce(batch, judged, durationMs, options)
  return judged
}

const begin = (
  batch: readonly Delivery[],
  { destination, receiver }: DeliverOptions,
  tracing: Tracing,
): DeliverTrace | null =>
  tracing.deliver({
    destination: destination.name,
    kind: receiver.kind,
    deliveries: batch.map((delivery) => {
      const { id, event, run, source } = delivery
      return { id, event, run, source, attempt: attemptNumber(delivery) }
    }),
  })

/** What a publisher sends carries the attempt's place in the trace; listeners are in it, and see what was stored. */
const travelling = (
  batch: readonly Delivery[],
  { headers }: DeliverTrace,
  { receiver }: DeliverOptions,
): readonly Delivery[] => {
  if (receiver.kind === 'listeners') return batch
  return batch.map((delivery, i) => {
    const { event } = delivery
    return { ...delivery, event: { ...event, headers: carried(event.headers, headers[i]) } }
  })
}

const tracedVerdict = (result: DeliveryResult): TracedVerdict =>
  result.verdict === 'done'
    ? { verdict: 'done', code: null, message: null }
    : { verdict: result.verdict, code: result.failure.code, message: result.failure.message }

const announce = (
  batch: readonly Delivery[],
  judged: readonly DeliveryResult[],
  durationMs: number,
  { destination }: DeliverOptions,
): void =>
  tell('attempt', {
    destination: destination.name,
    durationMs,
    deliveries: batch.map((delivery, i) => {
      const { id, event, run, source } = delivery
      const { verdict, code } = tracedVerdict(judged[i] as DeliveryResult)
      const attempt = attemptNumber(delivery)
      return { id, eventId: event.id, type: event.type, run, attempt, path: source, verdict, code }
    }),
  })

/** Lets the receiver work until it answers or its time is over. */
const receiveInTime = async (
  batch: readonly Delivery[],
  options: DeliverOptions,
  stopping: Stopping,
): Promise<readonly SendResult[]> => {
  const context = new LazyContext(stopping)
  try {
    const received = options.receiver.receive(batch, context)
    return isThenable(received) ? await inTime(received, context, options) : received
  } finally {
    context.end()
  }
}

const inTime = (
  received: Promise<readonly SendResult[]>,
  context: LazyContext,
  { destination, runtime, hardDeadlineMs }: DeliverOptions,
): Promise<readonly SendResult[]> => {
  const { abortMs, graceMs } = limits(destination.timeoutMs, hardDeadlineMs)
  return new Promise((resolve, reject) => {
    let cancel = runtime.schedule(abortMs, () => {
      context.abort(deadlineError(destination.name, abortMs))
      const giveUp = (): void => reject(deadlineError(destination.name, abortMs + graceMs))
      cancel = runtime.schedule(graceMs, giveUp)
    })
    received.then(
      (results) => {
        cancel()
        resolve(results)
      },
      (error: unknown) => {
        cancel()
        reject(error)
      },
    )
  })
}

/** A timeout below the hard deadline is kept in full; what is left before the deadline is the grace then. */
const limits = (timeoutMs: number, hardDeadlineMs: number): { abortMs: number; graceMs: number } => {
  if (timeoutMs > 0 && timeoutMs < hardDeadlineMs)
    return { abortMs: timeoutMs, graceMs: Math.min(ABORT_GRACE_MS, hardDeadlineMs - timeoutMs) }
  const graceMs = Math.min(ABORT_GRACE_MS, hardDeadlineMs / 2)
  return { abortMs: hardDeadlineMs - graceMs, graceMs }
}

const isThenable = <T>(value: Promise<T> | T): value is Promise<T> =>
  typeof (value as { then?: unknown } | null | undefined)?.then === 'function'

const deadlineError = (destination: string, afterMs: number): OutboxError =>
  new OutboxError(
    ERROR_CODES.deadline,
    `the delivery to "${destination}" did not end within ${afterMs} ms; its signal was aborted`,
    { destination, afterMs },
  )

export const checkResults = (results: unknown, expected: number): readonly SendResult[] => {
  if (!Array.isArray(results) || results.length !== expected) {
    const got = Array.isArray(results) ? `${results.length} results` : typeof results
    throw new TypeError(
      `the publisher must return one result per delivery: ${expected} were sent, got ${got}`,
    )
  }
  return results as readonly SendResult[]
}

/** What an answer means for its delivery; a batch that a consumer pulled and never ended is judged here too. */
export const judge = (
  delivery: Delivery,
  result: SendResult | undefined,
  durationMs: number,
  options: JudgeOptions,
): DeliveryResult => {
  if (result?.ok === true) return DONE
  const { destination, receiver, logger } = options
  const error = result?.error
  const attempt = attemptNumber(delivery)
  const judged = classify(
    error,
    { attempt, type: delivery.event.type, destination: destination.name },
    {
      from: receiver.kind === 'publisher' ? 'publisher' : 'listener',
      ...(destination.classify ? { custom: destination.classify } : {}),
      onClassifierError: (problem) =>
        logger.log('error', 'the failure classifier threw; the delivery is retried', {
          destination: destination.name,
          error: String(problem),
        }),
    },
  )
  const described = describeError(error)
  return {
    verdict: judged.verdict,
    error,
    delayMs: judged.delayMs ?? null,
    counted: judged.counted,
    failure: {
      attempt,
      durationMs,
      code: described.code ?? null,
      message: described.message,
      stack: described.stack ?? null,
    },
  }
}
