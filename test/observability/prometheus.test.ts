/** What Prometheus itself says of our text and rules, and whether dashboard and rules name what there is. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { FAMILIES, type Family, type FamilyName } from '../../src/core/runtime/metric-families.ts'
import { createOutbox, OutageError, PermanentError } from '../../src/index.ts'
import { prometheusMetrics } from '../../src/prometheus/index.ts'
import { prometheusName } from '../../src/prometheus/names.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { findPromtool, type Promtool } from './promtool.ts'

const ROOT = join(import.meta.dirname, '../..')
const RULES = join(ROOT, 'ops/prometheus-rules.yaml')
const DASHBOARD = join(ROOT, 'ops/grafana-dashboard.json')

/** Every name that a query may use, and its labels. The first is the supervisor's: test/cli/worker.test.ts shows it. */
const series = new Map<string, readonly string[]>([['posthaste_worker_up', ['worker']]])
for (const [name, { kind, labels }] of Object.entries(FAMILIES) as [FamilyName, Family][]) {
  const full = prometheusName(name)
  if (kind === 'counter') series.set(`${full}_total`, labels)
  else if (kind === 'gauge') series.set(full, labels)
  else for (const end of ['_bucket', '_sum', '_count']) series.set(`${full}${end}`, [...labels, 'le'])
}

const namesIn = (text: string): string[] => [...new Set(text.match(/\bposthaste_\w+/g) ?? [])]

const labelsIn = (query: string): { readonly name: string; readonly labels: string[] }[] =>
  [...query.matchAll(/(posthaste_\w+)\{([^}]*)\}/g)].map(([, name = '', inner = '']) => ({
    name,
    labels: [...inner.matchAll(/(\w+)\s*(?:=|!)/g)].map(([, label = '']) => label),
  }))

let promtool: Promtool
beforeAll(async () => {
  promtool = await findPromtool()
}, 300_000)

describe('promtool', () => {
  it('accepts what an outbox that saw successes, failures, deaths and an outage measured', async () => {
    const metrics = prometheusMetrics({ labels: { service: 'shop "a" \\ b' } })
    const outbox = createOutbox({
      store: sqliteStore({ file: ':memory:' }),
      metrics,
      pendingIntervalMs: 10,
      destinations: { mailer: { events: ['*'] }, other: { events: ['*'] } },
    })
    let outages = 1
    outbox.on('mailer', '*', ({ type }) => {
      if (type === 'order.refused') throw new PermanentError('no')
    })
    outbox.on('other', '*', () => {
      if (outages-- > 0) throw new OutageError('nobody there')
    })
    await outbox.start()
    await outbox.transaction(async (tx) => {
      for (const type of ['order.placed', 'order.refused', 'order.placed'])
        await outbox.publish(tx, { type, payload: 1 })
      await outbox.publish(tx, { type: 'order.placed', key: 'k', payload: 1 })
    })
    await outbox.flush()
    // A sample that was taken after the end of all of them.
    const dead = /posthaste_backlog\{[^}]*destination="mailer",status="dead"\} 1/
    await expect.poll(() => metrics.text(), { timeout: 60_000 }).toMatch(dead)
    await outbox.close()
    const text = metrics.text()
    expect(promtool(['check', 'metrics'], text)).toEqual({ ok: true, said: '' })
    for (const wanted of [
      'posthaste_published_events_total{service="shop \\"a\\" \\\\ b",type="order.placed"} 3',
      'destination="mailer",outcome="done"} 3',
      'destination="mailer",outcome="dead"} 1',
      'destination="other",outcome="outage"} 1',
      'destination="other",outcome="done"} 4',
    ])
      expect(text).toContain(wanted)
    expect(text).toMatch(
      /posthaste_delivery_lag_seconds_count\{[^}]*destination="mailer",path="hot"\} [123]\n/,
    )
    expect(text).toMatch(/posthaste_settle_batch_size_count\{[^}]*\} [1-9]/)
    expect(text).toMatch(/posthaste_read_duration_seconds_count\{[^}]*\} [1-9]/)
    expect(text).toContain('posthaste_oldest_age_seconds{')
    expect(text).toMatch(/posthaste_lanes_owned\{[^}]*\} 0/)
  })

  it('would refuse a text that is not right', () => {
    expect(promtool(['check', 'metrics'], 'a{b="c" 5\n').ok).toBe(false)
  })

  it('accepts the alert rules', () => {
    const { ok, said } = promtool(['check', 'rules', RULES])
    expect(said).toContain('SUCCESS: 15 rules found')
    expect(ok).toBe(true)
  })

  it('finds that they fire when they should', () => {
    expect(promtool(['test', 'rules', join(ROOT, 'ops/prometheus-rules.test.yaml')])).toMatchObject({
      ok: true,
    })
  })
})

describe('what is in ops', () => {
  const dashboard = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as {
    readonly panels: readonly {
      readonly id: number
      readonly title: string
      readonly type: string
      readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
      readonly targets?: readonly { readonly expr: string }[]
    }[]
    readonly templating: { readonly list: readonly { readonly name: string }[] }
  }
  const queries = [
    ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    ...readFileSync(RULES, 'utf8').split('\n'),
  ]

  it('names only metrics that there are, with labels that they have', () => {
    const texts = [readFileSync(DASHBOARD, 'utf8'), readFileSync(RULES, 'utf8')]
    expect(texts.flatMap(namesIn).filter((name) => !series.has(name))).toEqual([])
    const wrong = queries
      .flatMap(labelsIn)
      .flatMap(({ name, labels }) => labels.map((label) => ({ name, label })))
      .filter(({ name, label }) => series.get(name)?.includes(label) !== true)
    expect(wrong).toEqual([])
  })

  it('has a panel for every family', () => {
    const shown = namesIn(readFileSync(DASHBOARD, 'utf8'))
    const missing = (Object.keys(FAMILIES) as FamilyName[])
      .map((name) => prometheusName(name))
      .filter((full) => !shown.some((name) => name.startsWith(full)))
    expect(missing).toEqual([])
  })

  it('is a dashboard whose panels have numbers of their own, do not overlap, and use variables that exist', () => {
    const { panels, templating } = dashboard
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    for (const [i, { gridPos: a, title }] of panels.entries()) {
      expect(a.x + a.w, title).toBeLessThanOrEqual(24)
      for (const { gridPos: b } of panels.slice(i + 1)) {
        const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y
        expect(apart, title).toBe(true)
      }
    }
    const known = new Set([...templating.list.map(({ name }) => name), '__rate_interval'])
    const used = queries.flatMap((query) =>
      [...query.matchAll(/\$(?!labels|value)\{?(\w+)/g)].map(([, name]) => name),
    )
    expect(used.filter((name) => !known.has(name ?? ''))).toEqual([])
  })

  it('has queries that Prometheus can read', () => {
    const exprs = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
    const rules = exprs.map((expr, i) => ({
      record: `panel:${i}`,
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$destination', '.*'),
    }))
    const folder = mkdtempSync(join(tmpdir(), 'posthaste-panels-'))
    const file = join(folder, 'panels.yaml')
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }))
    const { said } = promtool(['check', 'rules', file])
    rmSync(folder, { recursive: true })
    expect(said).toContain(`SUCCESS: ${rules.length} rules found`)
  })
})
