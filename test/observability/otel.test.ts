/** Traces and metrics through OpenTelemetry, on SQLite: from a request to a listener, a publisher and a later process. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { context, propagation, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FAMILIES } from '../../src/core/runtime/metric-families.ts'
import { createOutbox, type OutgoingDelivery, PermanentError, type Tracing } from '../../src/index.ts'
import { otelMetrics, otelTracing } from '../../src/otel/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { registerTracing, type TracedWorld, traceparentOf } from './otel-world.ts'

let world: TracedWorld
let folder: string
beforeEach(() => {
  world = registerTracing()
  folder = mkdtempSync(join(tmpdir(), 'posthaste-otel-'))
})
afterEach(async () => {
  await world.close()
  rmSync(folder, { recursive: true, force: true })
})

const request = <T>(fn: () => Promise<T>): Promise<T> =>
  trace.getTracer('app').startActiveSpan('POST /orders', async (span) => {
    try {
      return await fn()
    } finally {
      span.end()
    }
  })

const store = () => sqliteStore({ file: join(folder, 'shop.db') })

describe('otelTracing', () => {
  it('makes one trace of a request, its publish and the listener, which is in it', async () => {
    const outbox = createOutbox({ store: store(), tracing: otelTracing() })
    const heard: (string | undefined)[] = []
    outbox.on('order.placed', async (event) => {
      heard.push(event.headers.traceparent)
      trace.getTracer('app').startSpan('mail').end()
    })
    await outbox.start()
    await request(() => outbox.transaction((tx) => outbox.publish(tx, { type: 'order.placed', payload: 1 })))
    await outbox.flush()
    await outbox.close()
    const [asked, published, processed, mail] = [
      'POST /orders',
      'publish order.placed',
      'process local',
      'mail',
    ].map((name) => world.named(name))
    expect(new Set(world.spans().map((span) => span.spanContext().traceId)).size).toBe(1)
    expect(published?.parentSpanContext?.spanId).toBe(asked?.spanContext().spanId)
    expect(processed?.parentSpanContext?.spanId).toBe(published?.spanContext().spanId)
    expect(mail?.parentSpanContext?.spanId).toBe(processed?.spanContext().spanId)
    expect([published?.kind, processed?.kind]).toEqual([SpanKind.PRODUCER, SpanKind.CONSUMER])
    expect(processed?.links.map(({ context: linked }) => linked.spanId)).toEqual([
      published?.spanContext().spanId,
    ])
    expect(heard).toEqual([traceparentOf(published!)])
    expect(processed?.attributes).toMatchObject({
      'messaging.destination.name': 'local',
      'posthaste.delivery.attempt': 1,
      'posthaste.delivery.path': 'hot',
      'posthaste.delivery.outcome': 'done',
    })
  })

  it('carries trace and baggage in the headers of what publishers send, each delivery with its own attempt', async () => {
    const sent: OutgoingDelivery[] = []
    const to = {
      maxBatch: 10,
      send: async (deliveries: readonly OutgoingDelivery[]) => {
        sent.push(...deliveries)
        return deliveries.map(() => ({ ok: true as const }))
      },
    }
    const first = createOutbox({
      store: store(),
      tracing: otelTracing(),
      serve: [],
      destinations: { kafka: { to, events: ['*'] } },
    })
    const baggage = propagation.createBaggage({ tenant: { value: 'acme' } })
    await context.with(propagation.setBaggage(context.active(), baggage), () =>
      request(() =>
        first.transaction((tx) =>
          first.publishMany(tx, [
            { type: 'order.placed', payload: 1, headers: { 'x-own': 'kept' } },
            {
              type: 'order.placed',
              payload: 2,
              headers: { traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` },
            },
          ]),
        ),
      ),
    )
    await first.close()
    // Another process, later.
    const second = createOutbox({
      store: store(),
      tracing: otelTracing(),
      destinations: { kafka: { to, events: ['*'] } },
    })
    await second.start()
    await second.flush()
    await second.close()
    const published = world.named('publish order.placed')
    const spans = world.spans().filter(({ name }) => name === 'send kafka')
    expect(spans).toHaveLength(2)
    for (const { event } of sent) {
      const span = spans.find(({ attributes }) => attributes['messaging.message.id'] === event.id)
      expect(event.headers.traceparent).toBe(traceparentOf(span!))
    }
    const own = spans.map((span) => span.spanContext().traceId)
    expect(own.sort()).toEqual([published.spanContext().traceId, 'a'.repeat(32)].sort())
    const plain = sent.find(({ event }) => event.headers['x-own'] === 'kept')
    expect(plain?.event.headers.baggage).toBe('tenant=acme')
    expect(spans.map(({ attributes }) => attributes['posthaste.delivery.path'])).toEqual(['cold', 'cold'])
  })

  it('begins a trace of its own that is linked, when asked to', async () => {
    const outbox = createOutbox({ store: store(), tracing: otelTracing({ relation: 'link' }) })
    outbox.on('*', () => undefined)
    await outbox.start()
    await request(() => outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: 1 })))
    await outbox.flush()
    await outbox.close()
    const [published, processed] = [world.named('publish a'), world.named('process local')]
    expect(processed.parentSpanContext).toBeUndefined()
    expect(processed.links.map((link) => link.context.spanId)).toEqual([published.spanContext().spanId])
  })

  it('tells of failures by code and text', async () => {
    const outbox = createOutbox({ store: store(), tracing: otelTracing() })
    outbox.on('*', () => {
      throw new PermanentError('refused by postgres://shop:hunter2@db')
    })
    await outbox.start()
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: 1 }))
    await outbox.flush()
    await outbox.close()
    const { status, attributes } = world.named('process local')
    expect(status).toEqual({ code: SpanStatusCode.ERROR, message: 'refused by postgres://shop:***@db' })
    expect(attributes).toMatchObject({
      'error.type': 'POSTHASTE_PERMANENT',
      'posthaste.delivery.outcome': 'dead',
    })
  })

  it('leaves out what does not fit beside the headers of an event', async () => {
    const outbox = createOutbox({ store: store(), tracing: otelTracing() })
    const headers = Object.fromEntries(Array.from({ length: 64 }, (_, i) => [`x-${i}`, 'y']))
    const id = await request(() =>
      outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: 1, headers })),
    )
    expect((await outbox.inspect.event(id))?.event.headers).toEqual(headers)
    await outbox.close()
  })

  it('refuses options that do not exist', () => {
    expect(() => otelTracing({ relation: 'parent' as never })).toThrow('relation must be child or link')
    expect(() => otelTracing({ tracer: 1 } as never)).toThrow('tracer')
    expect(() => otelMetrics({ meter: 1 } as never)).toThrow('meter')
  })
})

describe('a tracing that throws', () => {
  const broken = (): never => {
    throw new Error('broken')
  }
  it.each<[string, Tracing]>([
    ['always', { publish: broken, deliver: broken }],
    [
      'in what it made',
      {
        publish: () => ({ headers: {}, end: broken }),
        deliver: () => ({ headers: [], run: broken, end: broken }),
      },
    ],
    [
      'after it ran it, twice',
      {
        publish: () => null,
        deliver: () => ({
          headers: [],
          run: (fn) => {
            fn()
            fn()
            return broken()
          },
          end: broken,
        }),
      },
    ],
  ])('%s, disturbs nobody', async (_, tracing) => {
    const outbox = createOutbox({ store: store(), tracing })
    let heard = 0
    outbox.on('*', async () => {
      heard += 1
    })
    await outbox.start()
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: 1 }))
    await outbox.flush()
    await outbox.close()
    expect(heard).toBe(1)
  })
})

describe('otelMetrics', () => {
  it('shows every family that was measured, with its labels and buckets', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
    const meterProvider = new MeterProvider({ readers: [reader] })
    const metrics = otelMetrics({ meterProvider, attributes: { outbox: 'shop' } })
    const outbox = createOutbox({ store: store(), metrics })
    outbox.on('*', () => undefined)
    await outbox.start()
    await outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: 1 }))
    await outbox.flush()
    await outbox.close()
    await meterProvider.forceFlush()
    const found = exporter
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((one) => one.metrics))
    const lag = found.find(({ descriptor }) => descriptor.name === 'posthaste.delivery_lag')
    expect(lag?.descriptor.unit).toBe('s')
    expect(lag?.dataPoints).toMatchObject([
      {
        attributes: { outbox: 'shop', destination: 'local', path: 'hot' },
        value: { count: 1, buckets: { boundaries: FAMILIES.delivery_lag.buckets } },
      },
    ])
    const done = found.find(({ descriptor }) => descriptor.name === 'posthaste.deliveries')
    expect(done?.dataPoints).toMatchObject([
      { attributes: { destination: 'local', outcome: 'done' }, value: 1 },
    ])
    const lanes = found.find(({ descriptor }) => descriptor.name === 'posthaste.lanes_owned')
    expect(lanes?.dataPoints).toMatchObject([{ value: 0 }])
    await meterProvider.shutdown()
  })
})
