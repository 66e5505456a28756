/** One trace from a real HTTP request through the outbox to the header of a Kafka record. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { context, propagation, type Span, SpanKind, trace } from '@opentelemetry/api'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startService } from '../../../scripts/services/index.ts'
import { createOutbox } from '../../../src/core/outbox.ts'
import { otelTracing } from '../../../src/otel/index.ts'
import { kafkaPublisher } from '../../../src/publishers/kafka/index.ts'
import { sqliteStore } from '../../../src/stores/sqlite/index.ts'
import { registerTracing, type TracedWorld, traceparentOf } from '../../observability/otel-world.ts'
import { newTopic } from '../broker.ts'
import { addressOf, createTopic, type KafkaAddress, readTopic } from '../kafka-topic.ts'
import { untilThere } from '../received.ts'

let address: KafkaAddress
let world: TracedWorld
beforeAll(async () => {
  // Not the one that other tests kill.
  address = addressOf(await startService('kafka@others'))
  world = registerTracing()
})
afterAll(() => world.close())

/** What the instrumentation of an HTTP server does: the span of the request, in the trace of whoever asks. */
const inSpan = (asked: IncomingMessage, fn: () => Promise<void>): Promise<void> => {
  const from = propagation.extract(context.active(), asked.headers)
  return context.with(from, () =>
    trace.getTracer('http').startActiveSpan('POST /orders', { kind: SpanKind.SERVER }, async (span: Span) => {
      await fn()
      span.end()
    }),
  )
}

const post = (port: number, headers: Record<string, string>): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    const asking = request(
      { host: '127.0.0.1', port, method: 'POST', path: '/orders', headers },
      (answer) => {
        answer.resume()
        answer.on('end', () => resolve(answer.statusCode))
      },
    )
    asking.on('error', reject)
    asking.end()
  })

it('is carried from a request to the header of a Kafka record', async () => {
  const topic = newTopic()
  await createTopic(address, topic)
  const outbox = createOutbox({
    store: sqliteStore({ file: ':memory:' }),
    tracing: otelTracing(),
    destinations: { kafka: { to: kafkaPublisher({ ...address }), events: ['order.*'], topic } },
  })
  await outbox.start()
  const handle = async (response: ServerResponse): Promise<void> => {
    await outbox.transaction((tx) =>
      outbox.publish(tx, { type: 'order.placed', key: 'o-1', payload: { total: 5 } }),
    )
    response.writeHead(201).end()
  }
  const server = createServer((asked, response) => void inSpan(asked, () => handle(response)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  const client = trace.getTracer('app').startSpan('client')
  const headers: Record<string, string> = { baggage: 'tenant=acme' }
  propagation.inject(trace.setSpan(context.active(), client), headers)
  expect(await post((server.address() as AddressInfo).port, { ...headers, baggage: 'tenant=acme' })).toBe(201)
  client.end()
  await outbox.flush()
  const [record] = await untilThere(1, () => readTopic(address, topic))
  await outbox.close()
  await new Promise((resolve) => server.close(resolve))

  const [asked, published, sent] = ['POST /orders', 'publish order.placed', 'send kafka'].map((name) =>
    world.named(name),
  )
  expect(record?.headers.traceparent).toBe(traceparentOf(sent!))
  expect(record?.headers.baggage).toBe('tenant=acme')
  expect(sent?.parentSpanContext?.spanId).toBe(published?.spanContext().spanId)
  expect(published?.parentSpanContext?.spanId).toBe(asked?.spanContext().spanId)
  expect(asked?.parentSpanContext?.spanId).toBe(client.spanContext().spanId)
  expect(new Set(world.spans().map((span) => span.spanContext().traceId)).size).toBe(1)
  expect(sent?.attributes).toMatchObject({
    'messaging.destination.name': 'kafka',
    'posthaste.delivery.outcome': 'done',
  })
})
