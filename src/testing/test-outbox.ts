/**
 * An outbox for users' tests: on the memory store, with a clock that stands still until the test moves it, and
 * with questions that a test asks. Nothing in here sleeps, but for a close that something keeps.
 */
import { AssertionError } from 'node:assert'
import type { EventDefinition } from '../core/define-event.ts'
import { viewEvent } from '../core/event-view.ts'
import type { OutboxEvent } from '../core/model/event.ts'
import type { DestinationOptions, OutboxOptions } from '../core/options.ts'
import { createOutbox } from '../core/outbox.ts'
import type { Outbox } from '../core/outbox-api.ts'
import { createSystemRuntime } from '../core/runtime/system-runtime.ts'
import type { DeliveryView, Runtime } from '../core/spi/index.ts'
import {
  createMemoryDatabase,
  type MemoryDatabase,
  type MemoryStore,
  type MemoryTransaction,
  memoryStore,
} from '../stores/memory/index.ts'
import { createBell } from './bell.ts'
import { createDrain, type Drained, type DrainOptions } from './drain.ts'
import { createExpectations, type Expectations } from './expectations.ts'
import { createFakeRuntime, type FakeRuntime, type FakeRuntimeOptions } from './fake-runtime.ts'
import { observeStore } from './observed-store.ts'
import { cancel, later } from './real-timers.ts'

export interface TestOutboxOptions
  extends Omit<OutboxOptions<MemoryTransaction, MemoryTransaction>, 'store' | 'runtime'>,
    FakeRuntimeOptions {
  /** Shared with another test outbox, to play several processes. */
  readonly database?: MemoryDatabase
  /** `fake` (default): time passes by `advance` and `drain`. `real`: time is the system's. Or a runtime of yours. */
  readonly clock?: 'fake' | 'real' | FakeRuntime
}

export interface WaitOptions {
  /** Give up after this long, in real milliseconds. Default 5,000. */
  readonly timeoutMs?: number
}

export interface TestOutbox<Names extends string = string> extends Expectations, AsyncDisposable {
  readonly outbox: Outbox<MemoryTransaction, MemoryTransaction, Names>
  readonly store: MemoryStore
  readonly database: MemoryDatabase
  readonly runtime: Runtime
  /** Lets time pass; only with the fake clock. */
  advance(ms: number): Promise<void>
  /** Delivers what is due; with `untilIdle` also what becomes due later, by moving the fake clock. */
  drain(options?: DrainOptions): Promise<Drained>
  /** Everything that was committed, in order. */
  published(): readonly OutboxEvent[]
  /** Resolves when the event, or the first one of this kind, was delivered to one destination or to all. */
  waitForDelivery<Input, Output>(
    event: string | EventDefinition<string, Input, Output>,
    destination?: Names,
    options?: WaitOptions,
  ): Promise<void>
  /** Resolves when the predicate holds; it is looked at whenever something changed in the store. */
  waitFor(predicate: () => unknown, options?: WaitOptions): Promise<void>
  /** Deliveries of every state, oldest first; never with payloads. */
  deliveries(): Promise<readonly DeliveryView[]>
  close(): Promise<void>
}

const DEFAULT_WAIT_MS = 5_000
/** Of real time, for transactions and listeners that only need that; less than the five seconds that most runners give a test. */
const CLOSE_WAIT_MS = 3_000
const MOST_DELIVERIES = 10_000

const isFake = (runtime: Runtime): runtime is FakeRuntime => 'advance' in runtime

/** Outboxes on one database stand for processes, which do not draw the same ids. */
const processes = new WeakMap<MemoryDatabase, number>()

const pickRuntime = (options: TestOutboxOptions, database: MemoryDatabase): Runtime => {
  const { clock = 'fake', seed = 1 } = options
  if (typeof clock === 'object') return clock
  if (clock === 'real') return createSystemRuntime()
  const nth = processes.get(database) ?? 0
  processes.set(database, nth + 1)
  return createFakeRuntime({ ...options, seed: seed + nth * 7_919 })
}

export const createTestOutbox = <
  const D extends Readonly<Record<string, DestinationOptions>> = Record<never, DestinationOptions>,
>(
  options: TestOutboxOptions & { readonly destinations?: D } = {},
): TestOutbox<(keyof D & string) | 'local'> => {
  const {
    database = createMemoryDatabase(),
    clock: _clock,
    seed: _seed,
    startAt: _startAt,
    processName: _name,
    ...given
  } = options
  const runtime = pickRuntime(options, database)
  const bell = createBell()
  const drain = createDrain()
  const store = observeStore<MemoryStore>(memoryStore({ database }), {
    changed: () => bell.ring(),
    settled: (request, result) => drain.settled(request, result),
  })
  const outbox = createOutbox<MemoryTransaction, MemoryTransaction, D>({ ...given, store, runtime })
  const events = (): readonly OutboxEvent[] =>
    [...database.eventsInOrder].map(({ record }) => viewEvent(record))
  const advance = async (ms: number): Promise<void> => {
    if (!isFake(runtime)) throw new Error('time cannot be moved with clock: "real"; leave the option out')
    await runtime.advance(ms)
  }
  const waitFor = async (predicate: () => unknown, wait: WaitOptions = {}): Promise<void> => {
    const met = bell.until(async () => Boolean(await predicate()))
    await inTime(met, wait.timeoutMs ?? DEFAULT_WAIT_MS, () => summary(database))
  }
  const deliveredTo = (wanted: string, destination: string | undefined): boolean => {
    const row = [...database.eventsInOrder].find(
      ({ record }) => record.id === wanted || record.type === wanted,
    )
    const rows = [...(row?.deliveries ?? [])].filter(
      (it) => destination === undefined || it.destination === destination,
    )
    return rows.length > 0 && rows.every(({ status }) => status === 'done' || status === 'discarded')
  }
  const close = async (): Promise<void> => {
    const closing = outbox.close()
    let isClosed = false
    const closed = closing
      .catch(() => undefined)
      .then(() => {
        isClosed = true
      })
    if (isFake(runtime)) {
      await inTime(closed, CLOSE_WAIT_MS, () => '').catch(() => undefined)
      // A transaction or a listener that never ends would be waited for as long as nobody lets time pass.
      while (!isClosed && runtime.nextTimerInMs !== null) await runtime.advance(runtime.nextTimerInMs)
    }
    await closing
  }
  return {
    ...createExpectations((definition) =>
      [...database.eventsInOrder].map(({ record }) =>
        viewEvent(record, record.type === definition?.type ? definition : null),
      ),
    ),
    outbox,
    store,
    database,
    runtime,
    advance,
    drain: (drainOptions) =>
      drain.run({ outbox, database, runtime: isFake(runtime) ? runtime : null }, drainOptions),
    published: events,
    waitForDelivery: (event, destination, wait) =>
      waitFor(() => deliveredTo(typeof event === 'string' ? event : event.type, destination), wait),
    waitFor,
    deliveries: async () =>
      (await outbox.inspect.list({ order: 'oldest', limit: MOST_DELIVERIES })).deliveries,
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A test that waits for what never comes should say what there was instead of running into the runner's limit. */
const inTime = async (promise: Promise<void>, timeoutMs: number, what: () => string): Promise<void> => {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_, reject) => {
    timer = later(() => {
      const message = `Waited ${timeoutMs} ms for something that did not happen. ${what()}`
      reject(new AssertionError({ message, operator: 'waitFor' }))
    }, timeoutMs)
  })
  try {
    await Promise.race([promise, expired])
  } finally {
    cancel(timer)
  }
}

const summary = (database: MemoryDatabase): string => {
  const lines = [...database.deliveriesInOrder].map((row) => {
    const type = database.events.get(row.eventId)?.record.type ?? '?'
    const error = row.lastError === null ? '' : `: ${row.lastError}`
    return `  ${type} to ${row.destination === '*' ? '(not routed yet)' : row.destination}: ${row.status}, ${row.attempts} attempts${error}`
  })
  return lines.length === 0 ? 'There are no deliveries.' : ['The deliveries are:', ...lines].join('\n')
}
