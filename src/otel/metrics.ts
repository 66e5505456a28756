/** The families of metrics as instruments of OpenTelemetry. */
import { type Attributes, metrics as globalMetrics, type MeterProvider } from '@opentelemetry/api'
import { refuseUnknown } from '../core/model/unknown-names.ts'
import { boundedNumber } from '../core/options.ts'
import { FAMILIES, type Family, type FamilyName, type LabelValues } from '../core/runtime/metric-families.ts'
import { type MetricSink, recordedMetrics } from '../core/runtime/recorded-metrics.ts'
import type { Metrics } from '../core/spi/index.ts'

export interface OtelMetricsOptions {
  /** Default: the one that the application registered. */
  readonly meterProvider?: MeterProvider
  /** Attributes of every figure, such as `{ outbox: 'shop' }`. Default none. */
  readonly attributes?: Attributes
  /** Destinations that are told apart; the others are counted together as `_other`. Default 200; 1 to 10,000. */
  readonly maxDestinations?: number
  /** Event types that are told apart; the others are counted together as `_other`. Default 100; 1 to 10,000. */
  readonly maxTypes?: number
}

const NAMES: ReadonlySet<string> = new Set<keyof OtelMetricsOptions>([
  'meterProvider',
  'attributes',
  'maxDestinations',
  'maxTypes',
])

type Record = (value: number, attributes: Attributes) => void

export const otelMetrics = (given: OtelMetricsOptions = {}): Metrics => {
  refuseUnknown('otelMetrics', given, NAMES)
  const bounds = {
    maxDestinations: boundedNumber('maxDestinations', given.maxDestinations ?? 200, [1, 10_000]),
    maxTypes: boundedNumber('maxTypes', given.maxTypes ?? 100, [1, 10_000]),
  }
  const meter = (given.meterProvider ?? globalMetrics).getMeter('posthaste')
  const instruments = new Map<FamilyName, Record>()
  for (const [name, { kind, unit, help, buckets }] of Object.entries(FAMILIES) as [FamilyName, Family][]) {
    const shown = `posthaste.${name}`
    const options = { description: help, ...(unit === 'seconds' ? { unit: 's' } : {}) }
    if (kind === 'counter') {
      const counter = meter.createCounter(shown, options)
      instruments.set(name, (value, attributes) => counter.add(value, attributes))
    } else if (kind === 'gauge') {
      const gauge = meter.createGauge(shown, options)
      instruments.set(name, (value, attributes) => gauge.record(value, attributes))
    } else {
      const advice = { explicitBucketBoundaries: [...(buckets ?? [])] }
      const histogram = meter.createHistogram(shown, { ...options, advice })
      instruments.set(name, (value, attributes) => histogram.record(value, attributes))
    }
  }
  const attributesOf = new Map<FamilyName, Map<LabelValues, Attributes>>()
  const record = (name: FamilyName, labels: LabelValues, value: number): void => {
    const known = attributesOf.get(name) ?? new Map<LabelValues, Attributes>()
    attributesOf.set(name, known)
    let attributes = known.get(labels)
    if (attributes === undefined) {
      const named = FAMILIES[name].labels.map((label, i) => [label, labels[i] ?? ''])
      attributes = { ...given.attributes, ...Object.fromEntries(named) } as Attributes
      known.set(labels, attributes)
    }
    instruments.get(name)?.(value, attributes)
  }
  const sink: MetricSink = { add: record, set: record, observe: record }
  return recordedMetrics(sink, bounds)
}
