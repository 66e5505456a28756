/** docs/observability.md says what the code does: every metric, channel, alert and option. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CHANNELS } from '../../src/core/runtime/channels.ts'
import { FAMILIES, type Family, type FamilyName } from '../../src/core/runtime/metric-families.ts'
import { NOOP_METRICS } from '../../src/core/runtime/metrics.ts'
import { recordedMetrics } from '../../src/core/runtime/recorded-metrics.ts'
import { prometheusName } from '../../src/prometheus/names.ts'
import { ROOT, readPage } from './code-blocks.ts'

const page = readPage('docs/observability.md')

const rows = (pattern: RegExp): string[][] =>
  [...page.matchAll(pattern)].map(([, ...cells]) => cells.map(String))

describe('docs/observability.md', () => {
  it('has every metric with its kind, labels and meaning, in the order of the code', () => {
    const documented = rows(/^\| `(posthaste_\w+)` \| (\w+) \| ([^|]*) \| (.*) \|$/gm)
    const real = (Object.entries(FAMILIES) as [FamilyName, Family][]).map(
      ([name, { kind, labels, help }]) => [
        `${prometheusName(name)}${kind === 'counter' ? '_total' : ''}`,
        kind,
        labels.map((label) => `\`${label}\``).join(', '),
        help,
      ],
    )
    expect(documented).toEqual(real)
  })

  it('names no metric that there is not', () => {
    const known = (Object.keys(FAMILIES) as FamilyName[]).map((name) => prometheusName(name))
    const named = page.match(/\bposthaste_[a-z_]+[a-z]/g) ?? []
    expect(named.filter((name) => !known.some((full) => name.startsWith(full)))).toEqual([])
  })

  it('has every channel', () => {
    expect(rows(/^\| `(posthaste:\w+)` \|/gm).flat()).toEqual(
      Object.keys(CHANNELS).map((name) => `posthaste:${name}`),
    )
  })

  it('has every alert, and says what to do', () => {
    const rules = readFileSync(join(ROOT, 'ops/prometheus-rules.yaml'), 'utf8')
    const real = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
    expect(rows(/^\| `(Posthaste\w+)` \|[^|]+\|[^|]+\|$/gm).flat()).toEqual(real)
  })
})

describe('the families', () => {
  it('are all fed by some method of Metrics', () => {
    const fed = new Set<FamilyName>()
    const note = (family: FamilyName): void => void fed.add(family)
    const metrics = recordedMetrics(
      { add: note, set: note, observe: note },
      { maxDestinations: 5, maxTypes: 5 },
    )
    for (const name of Object.keys(NOOP_METRICS) as (keyof typeof metrics)[]) {
      const args =
        name === 'observeSettle' || name === 'settleFailed'
          ? [1, 2]
          : ['x', name === 'setBacklog' ? { dead: 1 } : 1, 2]
      ;(metrics[name] as (...given: unknown[]) => void)(...args)
    }
    expect([...fed].sort()).toEqual(Object.keys(FAMILIES).sort())
  })
})
