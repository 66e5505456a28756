/** What a worker measured, as Prometheus reads it; texts of several processes become one. */
import type { LoadedWith } from '../../config/load-config.ts'
import type { OutboxHost, SettingsFromOutside } from '../../core/host.ts'
import { NOOP_METRICS } from '../../core/runtime/metrics.ts'
import type { Metrics } from '../../core/spi/index.ts'
import { type PrometheusMetrics, prometheusMetrics } from '../../prometheus/index.ts'
import type { Answer } from './health.ts'

/** How often backlog and oldest age are asked of the database, where neither the code nor a setting says. */
const PENDING_INTERVAL_MS = 15_000

export type Labels = Readonly<Record<string, string>>

export interface Part {
  readonly text: string
  /** Added to every series that does not have them itself. */
  readonly labels: Labels
}

const withLabels = (sample: string, labels: Labels): string => {
  const end = sample.search(/[{ ]/)
  const [name, rest] = [sample.slice(0, end), sample.slice(end)]
  const own = rest.startsWith('{') ? rest.slice(1, rest.lastIndexOf('}')) : ''
  // A quote inside of a value is escaped, so this finds names of labels only.
  const added = Object.entries(labels).filter(([label]) => !new RegExp(`(^|,)${label}="`).test(own))
  const all = [...added.map(([label, value]) => `${label}="${value}"`), ...(own === '' ? [] : [own])]
  return `${name}${all.length === 0 ? '' : `{${all.join(',')}}`} ${rest.slice(rest.lastIndexOf(' ') + 1)}`
}

interface Family {
  readonly head: Map<string, string>
  readonly samples: string[]
}

/** One head per family, as the format demands, and the series of all parts behind it. */
export const mergedText = (parts: readonly Part[]): string => {
  const families = new Map<string, Family>()
  for (const { text, labels } of parts) {
    let current = ''
    for (const line of text.split('\n')) {
      const [, word, family] = /^# (HELP|TYPE) (\S+)/.exec(line) ?? []
      if (family !== undefined) current = family
      else if (line === '' || line.startsWith('#')) continue
      const known: Family = families.get(current) ?? { head: new Map(), samples: [] }
      families.set(current, known)
      if (word === undefined) known.samples.push(withLabels(line, labels))
      else known.head.set(word, line)
    }
  }
  const lines = [...families.values()].flatMap(({ head, samples }) => [...head.values(), ...samples])
  return lines.map((line) => `${line}\n`).join('')
}

/** The type is the same for every text of this format. */
export const metricsAnswer = (text: string): Answer => ({
  status: 200,
  type: 'text/plain; version=0.0.4; charset=utf-8',
  body: text,
})

type Method = (a: unknown, b: unknown, c: unknown) => void

/** Both hear everything; one of them is the user's, and may lack methods that are newer than it. */
const both = (first: Metrics, second: Metrics): Metrics =>
  Object.fromEntries(
    (Object.keys(NOOP_METRICS) as (keyof Metrics)[]).map((name) => {
      const [one, other] = [first[name] as Method, second[name] as Method | undefined]
      const call: Method = (a, b, c) => {
        one.call(first, a, b, c)
        other?.call(second, a, b, c)
      }
      return [name, call]
    }),
  ) as unknown as Metrics

const hasText = (metrics: Metrics | undefined): metrics is PrometheusMetrics =>
  typeof (metrics as Partial<PrometheusMetrics> | undefined)?.text === 'function'

/** The figures of the outboxes of this process. They survive that the configuration is read again. */
export class WorkerMetrics {
  readonly #own = prometheusMetrics()
  /** By the name of the outbox: read again, it may have another one. */
  readonly #foreign = new Map<string, PrometheusMetrics>()
  readonly #samples: boolean

  /** `samples`: this process also asks the database how much there is; one of several is enough. */
  constructor(samples: boolean) {
    this.#samples = samples
  }

  /** Settings for an outbox that make it measure, beside what its own code measures. */
  settingsFor(given: OutboxHost['given'], { name }: LoadedWith): SettingsFromOutside {
    const { metrics, pendingIntervalMs } = given
    const sampling =
      pendingIntervalMs === undefined && this.#samples ? { pendingIntervalMs: PENDING_INTERVAL_MS } : {}
    if (hasText(metrics)) {
      this.#foreign.set(name, metrics)
      return sampling
    }
    const own = this.#own.withLabels({ outbox: name })
    return { ...sampling, metrics: metrics === undefined ? own : both(own, metrics) }
  }

  text(): string {
    // Several outboxes may share one.
    const byMetrics = new Map([...this.#foreign].map(([outbox, metrics]) => [metrics, outbox]))
    const foreign = [...byMetrics].map(([metrics, outbox]) => ({ text: metrics.text(), labels: { outbox } }))
    return mergedText([{ text: this.#own.text(), labels: {} }, ...foreign])
  }
}
