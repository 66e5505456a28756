/**
 * Stage 1: publish.
 *
 * Receives prepared events and whether their commit can be observed. Hands on, through the store, events and
 * deliveries written in the caller's transaction with one call; and to stage 2 the deliveries that may go the
 * hot way if that transaction commits. Guarantees that a delivery is born claimed only where nothing can be
 * in doubt: no key, no delay, no idempotency key or id of the caller's (the insert may write nothing then), a
 * commit we will hear of, and a dispatcher that wants it.
 */
import { UNROUTED } from '../model/delivery.ts'
import { laneOf } from '../model/lane.ts'
import { hotToken } from '../model/uuid.ts'
import { CHANNELS, tell } from '../runtime/channels.ts'
import { NOOP_METRICS } from '../runtime/metrics.ts'
import { withTrace } from '../runtime/tracing.ts'
import type {
  InsertRequest,
  InsertResult,
  Logger,
  Metrics,
  NewDelivery,
  NewEvent,
  PublishTrace,
  Runtime,
  Store,
  Tracing,
} from '../spi/index.ts'
import type { HotDelivery, HotIntake } from './hot-intake.ts'
import type { PreparedEvent, PreparedEvents } from './prepare.ts'

/** A delivery that goes the hot way once its commit is confirmed. */
export type HotCandidate = Omit<HotDelivery, 'committedAt'>

/**
 * How the commit of this insert will be known:
 * - `observed`: through a scope, which also follows every savepoint.
 * - `doubtful`: the commit through a scope, but a savepoint may be undone behind our back; so every row is
 *   looked up (claimed by id) before it is sent.
 * - `unobserved`: not at all; the poller finds the rows.
 */
export type Observation = 'observed' | 'doubtful' | 'unobserved'

export interface PreparedPublish {
  readonly ids: readonly string[]
  readonly request: InsertRequest
  readonly hot: readonly HotCandidate[]
  /** Some of it only the poller will find, so it should look once the rows are there. */
  readonly expectsRows: boolean
  /** Ends with the insert. */
  readonly trace: PublishTrace | null
}

export interface Published {
  readonly ids: readonly string[]
  readonly hot: readonly HotCandidate[]
  readonly expectsRows: boolean
}

/** Whether a scope has room to remember one more hot delivery of this size until commit. */
export type Budget = (destination: string, bytes: number) => boolean

export interface PublishStage<E> {
  /** `mark`: what the store left in the transaction when the events were handed over. */
  plan(
    prepared: PreparedEvents,
    observation: Observation,
    budget: Budget,
    mark?: string | null,
  ): PreparedPublish
  insert(executor: E, planned: PreparedPublish): Promise<Published>
  insertSync(executor: E, planned: PreparedPublish): Published
}

export interface PublishStageParts<Tx, E> {
  readonly store: Store<Tx, E>
  readonly runtime: Runtime
  readonly logger: Logger
  readonly metrics: Metrics
  readonly tracing: Tracing | null
  readonly intake: HotIntake
  readonly hotLeaseMs: number
  /** Writers of the same key take turns. */
  readonly lockKeys: boolean
  readonly newId: () => string
}

export const createPublishStage = <Tx, E>(parts: PublishStageParts<Tx, E>): PublishStage<E> => {
  const { store, runtime, metrics, logger, tracing, intake, hotLeaseMs, lockKeys, newId } = parts

  const plan: PublishStage<E>['plan'] = (prepared, observation, budget, mark = null) => {
    const events: NewEvent[] = []
    const deliveries: NewDelivery[] = []
    const hot: HotCandidate[] = []
    // One token for the whole call: it proves that the rows are ours, and they live and die together.
    let token: string | null = null
    // Read before the statement is sent, so that our idea of the claim ends no later than the database's.
    const claimedUntil = runtime.monotonicNow() + hotLeaseMs
    const trace = tracing?.publish(prepared.events.map(({ record }) => record)) ?? null
    for (const one of prepared.events) {
      const routes = intake.routes(one.record.type)
      const event = newEvent(one, routes?.version ?? 0, trace)
      const lane = laneOf(event.key ?? event.id)
      events.push(event)
      for (const destination of routes?.destinations ?? [UNROUTED]) {
        const wanted = routes !== null && observation !== 'unobserved' && !one.delayed
        const isHot = wanted && intake.admits(destination) && budget(destination, event.size)
        const claimed = isHot && observation === 'observed' && event.key === null && one.isNew
        if (claimed) token ??= hotToken(newId(), intake.workerId)
        const { key, size } = event
        const id = newId()
        const right = claimed ? token : null
        deliveries.push({ id, eventId: event.id, destination, lane, key, size, due: one.due, token: right })
        if (isHot) hot.push({ id, event, destination, lane, token: right, claimedUntil })
      }
    }
    const request = {
      events,
      deliveries,
      hotLeaseMs,
      lockKeys,
      mayWait: true as const,
      ...(mark === null ? {} : { mark }),
    }
    return { ids: prepared.ids, request, hot, expectsRows: hot.length < deliveries.length, trace }
  }

  /** Runs of the same type are counted together: nearly every call has one. */
  const count = (events: readonly NewEvent[], isDuplicate: (id: string) => boolean): void => {
    let type = ''
    let run = 0
    for (const event of events) {
      if (isDuplicate(event.id)) continue
      if (event.type !== type && run > 0) metrics.published(type, run)
      run = event.type === type ? run + 1 : 1
      type = event.type
    }
    if (run > 0) metrics.published(type, run)
  }

  const report = ({ request: { events } }: PreparedPublish, { duplicates }: InsertResult): void => {
    if (metrics !== NOOP_METRICS) count(events, (id) => duplicates.has(id))
    if (CHANNELS.publish.hasSubscribers) {
      const stored = events.filter(({ id }) => !duplicates.has(id))
      tell('publish', { events: stored.map(({ id, type }) => ({ id, type })) })
    }
    if (logger.isEnabled?.('debug') === true) {
      logger.log('debug', 'events were taken; they are sent once their transaction commits', {
        events: events.length - duplicates.size,
        first: events[0]?.id,
        type: events[0]?.type,
      })
    }
  }

  const finish = (planned: PreparedPublish, result: InsertResult): Published => {
    const { duplicates } = result
    planned.trace?.end()
    report(planned, result)
    if (duplicates.size === 0) return planned
    return {
      ids: planned.ids.map((id) => duplicates.get(id) ?? id),
      hot: planned.hot.filter(({ event }) => !duplicates.has(event.id)),
      expectsRows: planned.expectsRows,
    }
  }

  return {
    plan,
    async insert(executor, planned) {
      try {
        return finish(planned, await store.insert(executor, planned.request))
      } catch (error) {
        planned.trace?.end(error)
        throw error
      }
    },
    insertSync(executor, planned) {
      try {
        if (store.insertSync === undefined) throw new TypeError(`${store.name} has no insertSync`)
        return finish(planned, store.insertSync(executor, planned.request))
      } catch (error) {
        planned.trace?.end(error)
        throw error
      }
    },
  }
}

const newEvent = (
  { record, idempotencyKey }: PreparedEvent,
  routesVersion: number,
  trace: PublishTrace | null,
): NewEvent => {
  const headers = trace === null ? record.headers : withTrace(record.headers, trace.headers)
  return Object.freeze({ ...record, headers, routesVersion, idempotencyKey })
}
