/**
 * Spans of OpenTelemetry. `publish` is a span of the application's trace; its context travels in the event's headers
 * (`traceparent`, `tracestate`, `baggage`, or whatever the propagator writes), is stored with it, and every attempt to
 * deliver it is a span of the same trace, or of one of its own that is linked to it. What a publisher sends carries the
 * context of its attempt. Attributes are ids, names and counts; never payloads, headers or keys.
 */
import {
  type Attributes,
  type Context,
  context as contexts,
  defaultTextMapGetter,
  propagation,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TextMapPropagator,
  type Tracer,
  type TracerProvider,
  trace as traces,
} from '@opentelemetry/api'
import { InvalidOptionError } from '../core/errors.ts'
import type { EventRecord, Headers } from '../core/model/event.ts'
import { maskSecrets } from '../core/model/mask-secrets.ts'
import { refuseUnknown } from '../core/model/unknown-names.ts'
import type {
  DeliverTrace,
  PublishTrace,
  TracedAttempt,
  TracedDelivery,
  TracedVerdict,
  Tracing,
} from '../core/spi/index.ts'

export interface OtelTracingOptions {
  /** Default: the one that the application registered. */
  readonly tracerProvider?: TracerProvider
  /** Default: the one that the application registered, usually for W3C trace context and baggage. */
  readonly propagator?: TextMapPropagator
  /**
   * `child`: an attempt belongs to the trace that published. `link`: it begins a trace of its own, which points at that
   * one; for traces that would otherwise stay open for days. Default `child`.
   */
  readonly relation?: 'child' | 'link'
}

const NAMES: ReadonlySet<string> = new Set<keyof OtelTracingOptions>([
  'tracerProvider',
  'propagator',
  'relation',
])
const RELATIONS: ReadonlySet<unknown> = new Set([undefined, 'child', 'link'])

const SETTER = {
  set(carrier: Record<string, string>, name: string, value: string): void {
    // Header names are the strictest that any broker has; what does not fit there is left out.
    if (/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/.test(name) && !/\p{Cc}/u.test(value)) carrier[name] = value
  },
}

export const otelTracing = (given: OtelTracingOptions = {}): Tracing => {
  refuseUnknown('otelTracing', given, NAMES)
  if (!RELATIONS.has(given.relation)) {
    const value = given.relation
    throw new InvalidOptionError('relation must be child or link', { option: 'relation', value })
  }
  const words = new Words(given)
  return {
    publish: (events) => publish(words, events),
    deliver: (attempt) => deliver(words, attempt, given.relation ?? 'child'),
  }
}

/** The application may register its provider after the outbox is made, so it is asked for each time. */
class Words {
  readonly #given: OtelTracingOptions

  constructor(given: OtelTracingOptions) {
    this.#given = given
  }

  get tracer(): Tracer {
    return (this.#given.tracerProvider ?? traces).getTracer('posthaste')
  }

  headersOf(context: Context): Headers {
    const carrier: Record<string, string> = {}
    const { propagator } = this.#given
    if (propagator === undefined) propagation.inject(context, carrier, SETTER)
    else propagator.inject(context, carrier, SETTER)
    return carrier
  }

  contextOf(headers: Headers): Context {
    const { propagator } = this.#given
    if (propagator === undefined) return propagation.extract(ROOT_CONTEXT, headers, defaultTextMapGetter)
    return propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter)
  }
}

const publish = (words: Words, events: readonly EventRecord[]): PublishTrace | null => {
  const [first] = events
  if (first === undefined) return null
  const isSame = events.every(({ type }) => type === first.type)
  const attributes: Attributes = {
    'messaging.system': 'posthaste',
    'messaging.operation.name': 'publish',
    'messaging.operation.type': 'create',
    ...(isSame ? { 'posthaste.event.type': first.type } : {}),
    ...(events.length === 1
      ? { 'messaging.message.id': first.id, 'messaging.message.body.size': first.size }
      : { 'messaging.batch.message_count': events.length }),
  }
  const active = contexts.active()
  const name = isSame ? `publish ${first.type}` : 'publish'
  const span = words.tracer.startSpan(name, { kind: SpanKind.PRODUCER, attributes }, active)
  return {
    headers: words.headersOf(traces.setSpan(active, span)),
    end(error) {
      if (error !== undefined) failed(span, codeOf(error), textOf(error))
      span.end()
    },
  }
}

const deliver = (words: Words, attempt: TracedAttempt, relation: 'child' | 'link'): DeliverTrace => {
  const made = attempt.deliveries.map((delivery) => begin(words, attempt, delivery, relation))
  const [only] = made
  // A batch is in many traces at once, so nobody finds himself in one of them.
  const around = made.length === 1 && only !== undefined ? only.context : ROOT_CONTEXT
  return {
    headers: made.map(({ context }) => words.headersOf(context)),
    run: (fn) => contexts.with(around, fn),
    end(verdicts) {
      for (const [i, { span }] of made.entries()) finish(span, verdicts[i])
    },
  }
}

const begin = (
  words: Words,
  { destination, kind, deliveries }: TracedAttempt,
  { id, event, run, attempt, source }: TracedDelivery,
  relation: 'child' | 'link',
): { readonly span: Span; readonly context: Context } => {
  const stored = words.contextOf(event.headers)
  const publisher = traces.getSpanContext(stored)
  const links = publisher === undefined ? [] : [{ context: publisher }]
  const attributes: Attributes = {
    'messaging.system': 'posthaste',
    'messaging.destination.name': destination,
    'messaging.operation.name': kind === 'publisher' ? 'send' : 'process',
    'messaging.operation.type': kind === 'publisher' ? 'send' : 'process',
    'messaging.message.id': event.id,
    'messaging.message.body.size': event.size,
    'posthaste.event.type': event.type,
    'posthaste.delivery.id': id,
    'posthaste.delivery.run': run,
    'posthaste.delivery.attempt': attempt,
    'posthaste.delivery.path': source,
    ...(deliveries.length > 1 ? { 'messaging.batch.message_count': deliveries.length } : {}),
  }
  const parent = relation === 'child' ? stored : traces.deleteSpan(stored)
  const span = words.tracer.startSpan(
    `${kind === 'publisher' ? 'send' : 'process'} ${destination}`,
    { kind: kind === 'publisher' ? SpanKind.PRODUCER : SpanKind.CONSUMER, attributes, links },
    parent,
  )
  return { span, context: traces.setSpan(parent, span) }
}

const finish = (span: Span, verdict: TracedVerdict | undefined): void => {
  if (verdict !== undefined) {
    span.setAttribute('posthaste.delivery.outcome', verdict.verdict)
    if (verdict.verdict !== 'done') failed(span, verdict.code, verdict.message ?? '')
  }
  span.end()
}

const failed = (span: Span, code: string | null, message: string): void => {
  span.setAttribute('error.type', code ?? '_OTHER')
  span.setStatus({ code: SpanStatusCode.ERROR, message: message.slice(0, 1_000) })
}

const codeOf = (error: unknown): string | null => {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' ? code : null
}

const textOf = (error: unknown): string =>
  maskSecrets(error instanceof Error ? error.message : String(error)).slice(0, 1_000)
