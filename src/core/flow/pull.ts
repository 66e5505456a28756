/**
 * The pull style: a consumer asks for a batch, decides about each delivery and commits. The rules are those of
 * the other paths (lanes, order per key, fences, suspects); only who calls whom is turned around.
 */
import { ERROR_CODES, OutboxError } from '../errors.ts'
import { viewEvent } from '../event-view.ts'
import type { Delivery } from '../model/delivery.ts'
import type { OutboxEvent } from '../model/event.ts'
import type { ResolvedDestination, ResolvedOptions } from '../options.ts'
import { describeError } from '../policy/failure.ts'
import type { Logger, Runtime } from '../spi/index.ts'
import { attemptNumber, type DeliveryResult, judge } from './deliver.ts'
import type { DestinationFlow } from './destination-flow.ts'
import type { Detached } from './engine-parts.ts'

export interface PulledDelivery {
  readonly id: string
  readonly destination: string
  readonly event: OutboxEvent
  readonly attempt: number
  readonly run: number
}

/**
 * A batch that this process alone may handle. Ends with `commit` or `rollback`, whichever comes first. One that is
 * still open at `hardDeadlineMs` is given up: nothing that was decided is written, and each delivery in it has failed.
 */
export interface Batch extends AsyncDisposable {
  readonly deliveries: readonly PulledDelivery[]
  /** Done. Without ids: all of them. */
  ack(...deliveryIds: string[]): void
  /** Counts an attempt and retries later, or dies at the limit. */
  fail(deliveryId: string, error: unknown): void
  /** Never again. */
  dead(deliveryId: string, error: unknown): void
  /** Writes what was decided; what was not goes back unspent. Rejects with the ids that could not be written. */
  commit(): Promise<void>
  /** Gives everything back unspent; does nothing when the batch has ended, so it may stand in a `finally`. */
  rollback(): Promise<void>
}

/** What a batch needs beside the flow that it is taken from. */
export interface PullParts {
  readonly runtime: Runtime
  readonly logger: Logger
  readonly options: Pick<ResolvedOptions, 'hardDeadlineMs'>
  readonly detached: Detached
}

interface BatchParts extends PullParts {
  readonly destination: ResolvedDestination
}

/** Reads before a fetch gives up: expansion or a sweep may have to come first. */
const MAX_READS = 3

export const fetchBatch = async (flow: DestinationFlow, parts: BatchParts, limit: number): Promise<Batch> => {
  let taken = await flow.dispatcher.take(limit)
  for (let i = 0; i < MAX_READS && taken.length === 0; i += 1) {
    await flow.poller.poll()
    taken = await flow.dispatcher.take(limit)
  }
  if (taken.length === 0) {
    const why = flow.dispatcher.paused
      ? `"${flow.name}" is paused until an operator resumes it`
      : `nothing is due for "${flow.name}" in the lanes of this process, or its rate allows no more for now`
    throw new OutboxError(ERROR_CODES.noDeliveries, why, { destination: flow.name })
  }
  return createBatch(flow, parts, taken)
}

const createBatch = (flow: DestinationFlow, parts: BatchParts, taken: readonly Delivery[]): Batch => {
  const { runtime, detached } = parts
  const { hardDeadlineMs } = parts.options
  const takenAt = runtime.monotonicNow()
  const byId = new Map(taken.map((delivery) => [delivery.id, delivery]))
  const decided = new Map<string, DeliveryResult>()
  let state: 'open' | 'ended' | 'given up' = 'open'

  const elapsedMs = (): number => Math.round(runtime.monotonicNow() - takenAt)
  // Nobody may be left who could end it, and it would keep its deliveries, their keys and their lanes for ever.
  const giveUp = (): void => {
    state = 'given up'
    const error = deadlineError(flow.name, hardDeadlineMs)
    const judging = { ...parts, receiver: { kind: 'listeners' } } as const
    const judged = (delivery: Delivery): DeliveryResult =>
      judge(delivery, { ok: false, error }, elapsedMs(), judging)
    // After a stop nothing can be written, so nobody is told that it failed: whoever has the lane now delivers it.
    const { isClosing } = flow.dispatcher
    for (const delivery of taken) flow.dispatcher.conclude(delivery, isClosing ? null : judged(delivery))
  }
  // The request, or the transaction, in which it was fetched may be over by then.
  const cancel = detached(() => runtime.schedule(hardDeadlineMs, giveUp, { background: true }))

  const overError = (): OutboxError =>
    state === 'given up'
      ? givenUpError(hardDeadlineMs, [...decided.keys()])
      : new OutboxError(ERROR_CODES.conflict, 'this batch has ended; fetch another one')
  const find = (id: string): Delivery => {
    if (state !== 'open') throw overError()
    const delivery = byId.get(id)
    if (delivery) return delivery
    throw new OutboxError(ERROR_CODES.notFound, `delivery ${id} is not part of this batch`, {
      deliveryId: id,
    })
  }
  const decide = (id: string, verdict: 'retry' | 'dead', error: unknown): void => {
    const { code, message, stack } = describeError(error)
    const failure = {
      attempt: attemptNumber(find(id)),
      durationMs: elapsedMs(),
      code: code ?? null,
      message,
      stack: stack ?? null,
    }
    decided.set(id, { verdict, error, failure, delayMs: null, counted: true })
  }
  const end = async (): Promise<void> => {
    if (state !== 'open') return
    state = 'ended'
    cancel()
    const settling = [...decided.keys()].map(async (id) => ({ id, settled: await flow.settled(id) }))
    for (const delivery of taken) flow.dispatcher.conclude(delivery, decided.get(delivery.id) ?? null)
    const unwritten = (await Promise.all(settling)).filter(({ settled }) => settled !== 'written')
    if (unwritten.length === 0) return
    throw new OutboxError(
      ERROR_CODES.conflict,
      `${unwritten.length} of ${taken.length} decisions were not written, because the right to the deliveries was ` +
        'lost meanwhile (the lease ran out, or the outbox was stopped); whoever has it now delivers them again',
      { deliveryIds: unwritten.map(({ id }) => id) },
    )
  }
  const rollback = async (): Promise<void> => {
    if (state === 'open') decided.clear()
    await end()
  }
  return {
    deliveries: taken.map((delivery) => ({
      id: delivery.id,
      destination: delivery.destination,
      event: viewEvent(delivery.event),
      attempt: attemptNumber(delivery),
      run: delivery.run,
    })),
    ack(...ids) {
      for (const id of ids.length === 0 ? [...byId.keys()] : ids)
        decided.set(find(id).id, { verdict: 'done' })
    },
    fail: (id, error) => decide(id, 'retry', error),
    dead: (id, error) => decide(id, 'dead', error),
    async commit() {
      if (state === 'given up') throw overError()
      if (state === 'open' && decided.size === 0) {
        throw new OutboxError(
          ERROR_CODES.emptyBatch,
          'nothing in this batch was acked, failed or declared dead; call rollback() to give it back',
        )
      }
      await end()
    },
    rollback,
    [Symbol.asyncDispose]: rollback,
  }
}

/** In the history of each delivery of a batch that was given up. */
const deadlineError = (destination: string, afterMs: number): OutboxError =>
  new OutboxError(
    ERROR_CODES.deadline,
    `a batch pulled from "${destination}" was still open after ${afterMs} ms and was given up; end every batch with ` +
      'commit() or rollback(), also when its consumer throws ("await using" does that), or raise hardDeadlineMs',
    { destination, afterMs },
  )

/** For a consumer that comes back too late. */
const givenUpError = (afterMs: number, deliveryIds: readonly string[]): OutboxError =>
  new OutboxError(
    ERROR_CODES.conflict,
    `this batch has ended: it was still open after ${afterMs} ms (hardDeadlineMs) and was given up; nothing that was ` +
      'decided is written, and its deliveries are tried again; fetch fewer at a time, or raise hardDeadlineMs',
    { deliveryIds },
  )
