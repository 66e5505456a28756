/**
 * `posthaste/prometheus`: metrics in the text format of Prometheus, version 0.0.4, without a library. One of them can
 * serve several outboxes, each with labels of its own.
 */
import { InvalidOptionError } from '../core/errors.ts'
import { refuseUnknown } from '../core/model/unknown-names.ts'
import { boundedNumber } from '../core/options.ts'
import { FAMILIES, type Family, type FamilyName } from '../core/runtime/metric-families.ts'
import { recordedMetrics } from '../core/runtime/recorded-metrics.ts'
import type { Metrics } from '../core/spi/index.ts'
import { Cells } from './cells.ts'
import { prometheusName } from './names.ts'

export interface PrometheusMetricsOptions {
  /** What all names begin with. Default `posthaste_`. */
  readonly prefix?: string
  /** Labels of every series, such as `{ service: 'shop' }`. Default none. */
  readonly labels?: Readonly<Record<string, string>>
  /** Destinations that are told apart; the others are counted together as `_other`. Default 200; 1 to 10,000. */
  readonly maxDestinations?: number
  /** Event types that are told apart; the others are counted together as `_other`. Default 100; 1 to 10,000. */
  readonly maxTypes?: number
}

export interface PrometheusMetrics extends Metrics {
  /** Metrics of another outbox of this process; they are part of the same text. */
  withLabels(labels: Readonly<Record<string, string>>): Metrics
  /** Everything, as Prometheus reads it. */
  text(): string
  readonly contentType: string
  /** For `node:http`, and for what is built on it. It answers any path; mount it where you want it. */
  readonly handler: (request: { readonly method?: string | undefined }, response: AnswerableResponse) => void
}

/** What is used of the response of `node:http`. */
export interface AnswerableResponse {
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown
  end(body?: string): unknown
}

const NAMES: ReadonlySet<string> = new Set<keyof PrometheusMetricsOptions>([
  'prefix',
  'labels',
  'maxDestinations',
  'maxTypes',
])
const PREFIX = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const LABEL = /^(?!__)[a-zA-Z_][a-zA-Z0-9_]*$/
/** Those of the families, and the one of buckets. */
const TAKEN: ReadonlySet<string> = new Set([
  'le',
  ...Object.values(FAMILIES).flatMap(({ labels }) => labels as readonly string[]),
])

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

const checkLabels = (labels: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  for (const [name, value] of Object.entries(labels)) {
    const bad = !LABEL.test(name) || TAKEN.has(name)
    if (!bad && typeof value === 'string') continue
    const what = bad ? 'cannot be the name of a label' : 'must be text'
    throw new InvalidOptionError(`labels: "${name.slice(0, 100)}" ${what}`, { option: 'labels', value: name })
  }
  return { ...labels }
}

const checkPrefix = (prefix: unknown): string => {
  if (typeof prefix === 'string' && (prefix === '' || PREFIX.test(prefix))) return prefix
  const text = 'prefix must begin with a letter and go on with letters, digits or "_", such as "shop_outbox_"'
  throw new InvalidOptionError(text, { option: 'prefix', value: prefix })
}

export const prometheusMetrics = (given: PrometheusMetricsOptions = {}): PrometheusMetrics => {
  refuseUnknown('prometheusMetrics', given, NAMES)
  const prefix = checkPrefix(given.prefix ?? 'posthaste_')
  const constant = checkLabels(given.labels ?? {})
  const bounds = {
    maxDestinations: boundedNumber('maxDestinations', given.maxDestinations ?? 200, [1, 10_000]),
    maxTypes: boundedNumber('maxTypes', given.maxTypes ?? 100, [1, 10_000]),
  }
  const all = new Map<string, { readonly cells: Cells; readonly metrics: Metrics }>()
  /** The same labels are the same series, and must not be in the text twice. */
  const metricsFor = (labels: Readonly<Record<string, string>>): Metrics => {
    const key = JSON.stringify(Object.entries(labels).sort())
    const known = all.get(key)
    if (known !== undefined) return known.metrics
    const cells = new Cells(labels)
    const metrics = recordedMetrics(cells, bounds)
    all.set(key, { cells, metrics })
    return metrics
  }
  const text = (): string => {
    const lines: string[] = []
    for (const name of Object.keys(FAMILIES) as FamilyName[])
      writeFamily(
        lines,
        prefix,
        name,
        [...all.values()].map(({ cells }) => cells),
      )
    return lines.join('')
  }
  return {
    ...metricsFor(constant),
    withLabels: (labels) => metricsFor({ ...constant, ...checkLabels(labels) }),
    text,
    contentType: CONTENT_TYPE,
    handler(request, response) {
      if (request.method !== undefined && request.method !== 'GET' && request.method !== 'HEAD') {
        response.writeHead(405, { allow: 'GET, HEAD' })
        response.end()
        return
      }
      response.writeHead(200, { 'content-type': CONTENT_TYPE, 'cache-control': 'no-store' })
      response.end(request.method === 'HEAD' ? undefined : text())
    },
  }
}

const writeFamily = (lines: string[], prefix: string, name: FamilyName, from: readonly Cells[]): void => {
  const family: Family = FAMILIES[name]
  const full = prometheusName(name, prefix)
  const shown = family.kind === 'counter' ? `${full}_total` : full
  lines.push(`# HELP ${shown} ${family.help}\n# TYPE ${shown} ${family.kind}\n`)
  for (const cells of from) {
    for (const { suffix, labels, value } of cells.samples(name))
      lines.push(`${full}${suffix}${labelText(labels)} ${numberText(value)}\n`)
  }
}

const labelText = (labels: Readonly<Record<string, string>>): string => {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`)
  return parts.length === 0 ? '' : `{${parts.join(',')}}`
}

const escaped = (value: string): string =>
  value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

const numberText = (value: number): string => {
  if (Number.isFinite(value)) return String(value)
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}
