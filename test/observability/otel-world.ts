/** A tracer and a meter that keep everything in memory, as an application would register them. */
import { context, propagation, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'

export interface TracedWorld {
  readonly spans: () => readonly ReadableSpan[]
  readonly named: (name: string) => ReadableSpan
  readonly close: () => Promise<void>
}

export const registerTracing = (): TracedWorld => {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  const manager = new AsyncLocalStorageContextManager().enable()
  context.setGlobalContextManager(manager)
  trace.setGlobalTracerProvider(provider)
  propagation.setGlobalPropagator(
    new CompositePropagator({ propagators: [new W3CTraceContextPropagator(), new W3CBaggagePropagator()] }),
  )
  const spans = (): readonly ReadableSpan[] => exporter.getFinishedSpans()
  return {
    spans,
    named(name) {
      const found = spans().filter((span) => span.name === name)
      if (found.length !== 1 || found[0] === undefined)
        throw new Error(`${found.length} spans are called ${name}: ${spans().map((span) => span.name)}`)
      return found[0]
    },
    async close() {
      await provider.shutdown()
      context.disable()
      trace.disable()
      propagation.disable()
    },
  }
}

/** `00-<trace>-<span>-01`. */
export const traceparentOf = (span: ReadableSpan): string => {
  const { traceId, spanId } = span.spanContext()
  return `00-${traceId}-${spanId}-01`
}
