/**
 * A secret in payloads, headers, keys, passwords and settings, and everything that the library says while it stores,
 * delivers, fails, and cannot reach its database. None of it may contain the secret.
 */
import { inspect } from 'node:util'
import { expect } from 'vitest'
import {
  createJsonLogger,
  createOutbox,
  type Logger,
  OutageError,
  type Outbox,
  PermanentError,
  type Store,
} from '../../src/index.ts'
import { otelTracing } from '../../src/otel/index.ts'
import { prometheusMetrics } from '../../src/prometheus/index.ts'
import { registerTracing } from './otel-world.ts'

export const CANARY = 'hunter2-canary-9f3c'

type AnyStore = Store<never, never>

export interface Said {
  readonly logs: string[]
  readonly metrics: string
  readonly spans: string
  readonly errors: string[]
}

/** What a person or a program sees of an error: printed, logged, and as JSON. */
export const faces = (error: unknown): string[] => [
  String(error),
  error instanceof Error ? `${error.stack}` : '',
  inspect(error, { depth: 10, showHidden: false }),
  JSON.stringify(error, Object.getOwnPropertyNames(error)),
]

export const loggers = (): { readonly logger: Logger; readonly logs: string[] } => {
  const logs: string[] = []
  const json = createJsonLogger({ write: (line) => void logs.push(line), wallNow: () => 0, level: 'debug' })
  const logger: Logger = {
    isEnabled: () => true,
    log(level, message, fields) {
      json.log(level, message, fields)
      // As a logger of the application sees it, whatever that makes of objects.
      logs.push(inspect({ message, fields }, { depth: 10 }))
    },
  }
  return { logger, logs }
}

/** Publishes canaries to listeners of every mood, and collects what is said about it. */
export const singAlong = async (store: AnyStore, corrupt?: (id: string) => Promise<void>): Promise<Said> => {
  const { logger, logs } = loggers()
  const metrics = prometheusMetrics()
  const traced = registerTracing()
  const errors: string[] = []
  const outbox = createOutbox({
    store: store as unknown as Store,
    logger,
    metrics,
    tracing: otelTracing(),
    pendingIntervalMs: 10,
    retry: { maxAttempts: 2, computeDelayMs: () => 1 },
    destinations: { good: { events: ['*'] }, bad: { events: ['*'] }, away: { events: ['*'] } },
    onFailure: () => {
      throw new Error('of the application')
    },
  }) as unknown as Outbox<never, never>
  let outages = 1
  outbox.on('good' as never, '*', (event) => void event.payload)
  outbox.on('bad' as never, 'order.refused', () => {
    throw new PermanentError(`no connection to postgres://shop:${CANARY}@db:5432/shop (password=${CANARY})`)
  })
  outbox.on('bad' as never, 'order.*', () => {
    throw new Error('not now', { cause: new Error(`redis://:${CANARY}@cache`) })
  })
  outbox.on('away' as never, '*', () => {
    if (outages-- > 0) throw new OutageError(`amqp://u:${CANARY}@broker is away`)
  })
  const caught = async (work: () => unknown): Promise<void> => {
    try {
      await work()
    } catch (error) {
      errors.push(...faces(error))
    }
  }
  const draft = (type: string) => ({
    type,
    payload: { password: CANARY, note: CANARY },
    headers: { authorization: CANARY, note: CANARY },
    tenantId: 'acme',
  })
  await outbox.start()
  const publish = (given: object): Promise<string> =>
    outbox.transaction((tx) => outbox.publish(tx, given as never))
  for (const type of ['order.placed', 'order.refused']) await publish(draft(type))
  await publish({ ...draft('order.placed'), key: 'k' })
  if (corrupt !== undefined) {
    await outbox.operator.pause('good')
    await corrupt(await publish(draft('order.corrupt')))
    await outbox.operator.resume('good')
  }
  for (const wrong of [
    { type: 'order.placed', payload: { note: CANARY, total: 5n } },
    { type: 'order.placed', payload: `${CANARY}\uD800` },
    { type: 'order.placed', json: `{"a": ${CANARY}` },
    { type: 'order.placed', payload: 1, headers: { note: `${CANARY}\n` } },
    { type: 'order.placed', payload: 1, headers: { note: [CANARY] } },
  ])
    await caught(() => publish(wrong))
  await caught(() =>
    outbox.transaction(async (tx) => {
      await outbox.publish(tx, draft('order.placed') as never)
      throw new Error('rolled back')
    }),
  )
  await outbox.flush()
  await expect.poll(() => metrics.text()).toContain('posthaste_oldest_age_seconds{')
  const { deliveries } = await outbox.inspect.list({ limit: 100 })
  const [counts, workers, audit] = [
    await outbox.inspect.counts(),
    await outbox.inspect.workers(),
    await outbox.inspect.audit(),
  ]
  await outbox.close()
  const spans = inspect(
    traced
      .spans()
      .map(({ name, attributes, status, events, links }) => ({ name, attributes, status, events, links })),
    { depth: 10 },
  )
  await traced.close()
  expect(deliveries.some(({ lastError }) => lastError?.includes('postgres://shop:***@db'))).toBe(true)
  const damaged = deliveries.filter((one) => one.type === 'order.corrupt' || one.type === '')
  const failed = damaged.some(({ destination, lastError }) => destination === 'good' && lastError !== null)
  expect(failed).toBe(corrupt !== undefined)
  errors.push(inspect({ deliveries, counts, workers, audit }, { depth: 10, maxArrayLength: null }))
  return { logs, metrics: metrics.text(), spans, errors }
}

export const expectNoCanary = ({ logs, metrics, spans, errors }: Said): void => {
  expect(logs.length).toBeGreaterThan(10)
  expect(spans).toContain('publish order.placed')
  expect(metrics).toContain('outcome="dead"')
  for (const text of [...logs, metrics, spans, ...errors]) expect(text).not.toContain(CANARY)
}
