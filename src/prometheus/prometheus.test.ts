import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it } from 'vitest'
import { FAMILIES } from '../core/runtime/metric-families.ts'
import { NOOP_METRICS } from '../core/runtime/metrics.ts'
import { prometheusMetrics } from './index.ts'

const samples = (text: string): string[] =>
  text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))

describe('prometheusMetrics', () => {
  it('has every method of Metrics', () => {
    const metrics = prometheusMetrics() as unknown as Record<string, unknown>
    expect(Object.keys(NOOP_METRICS).filter((name) => typeof metrics[name] !== 'function')).toEqual([])
  })

  it('names every family once, with its kind and meaning, before anything happened', () => {
    const text = prometheusMetrics().text()
    expect(samples(text)).toEqual([])
    expect(text.match(/^# TYPE .*$/gm)).toHaveLength(Object.keys(FAMILIES).length)
  })

  it('writes counters, gauges and histograms', () => {
    const metrics = prometheusMetrics()
    metrics.dispatchSuccess('kafka', 2)
    metrics.dispatchSuccess('kafka', 3)
    metrics.queueDepths('kafka', 4, 5)
    metrics.queueDepths('kafka', 6, 0)
    metrics.breakerState('kafka', 'halfOpen')
    metrics.observeSettle(3, 40)
    metrics.observeSettle(9_000, 60_000)
    const lines = samples(metrics.text())
    expect(lines).toContain('posthaste_deliveries_total{destination="kafka",outcome="done"} 5')
    expect(lines).toContain('posthaste_queue_depth{destination="kafka",path="hot"} 6')
    expect(lines).toContain('posthaste_queue_depth{destination="kafka",path="cold"} 0')
    expect(lines).toContain('posthaste_breaker_state{destination="kafka",state="half_open"} 1')
    expect(lines).toContain('posthaste_breaker_state{destination="kafka",state="open"} 0')
    expect(lines.filter((line) => line.startsWith('posthaste_settle_batch_size'))).toEqual([
      ...[1, 2].map((le) => `posthaste_settle_batch_size_bucket{le="${le}"} 0`),
      ...[5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000].map(
        (le) => `posthaste_settle_batch_size_bucket{le="${le}"} 1`,
      ),
      'posthaste_settle_batch_size_bucket{le="+Inf"} 2',
      'posthaste_settle_batch_size_sum 9003',
      'posthaste_settle_batch_size_count 2',
    ])
    expect(lines).toContain('posthaste_settle_duration_seconds_sum 60.04')
  })

  it('puts what lies on the bound of a bucket into it', () => {
    const metrics = prometheusMetrics()
    metrics.observeLag('kafka', 'hot', 1)
    expect(samples(metrics.text())).toContain(
      'posthaste_delivery_lag_seconds_bucket{destination="kafka",path="hot",le="0.001"} 1',
    )
  })

  it('counts types and destinations beyond the bound together, and shows no gauge of several', () => {
    const metrics = prometheusMetrics({ maxTypes: 2, maxDestinations: 1 })
    for (const type of ['a', 'b', 'c', 'd', 'a']) metrics.published(type, 1)
    for (const destination of ['x', 'y', 'z']) {
      metrics.hotDropped(destination, 1)
      metrics.lanesOwned(destination, 7)
      metrics.observeLag(destination, 'cold', 5)
    }
    const lines = samples(metrics.text()).filter(
      (line) => !line.includes('_bucket') && !line.includes('_sum'),
    )
    expect(lines).toEqual([
      'posthaste_published_events_total{type="a"} 2',
      'posthaste_published_events_total{type="b"} 1',
      'posthaste_published_events_total{type="_other"} 2',
      'posthaste_hot_dropped_total{destination="x"} 1',
      'posthaste_hot_dropped_total{destination="_other"} 2',
      'posthaste_delivery_lag_seconds_count{destination="x",path="cold"} 1',
      'posthaste_delivery_lag_seconds_count{destination="_other",path="cold"} 2',
      'posthaste_lanes_owned{destination="x"} 7',
    ])
  })

  it('serves several outboxes, each with labels of its own, with one head per family', () => {
    const metrics = prometheusMetrics({ labels: { service: 'shop' } })
    const billing = metrics.withLabels({ outbox: 'billing' })
    expect(metrics.withLabels({ outbox: 'billing' })).toBe(billing)
    metrics.hotDropped('x', 1)
    billing.hotDropped('x', 2)
    const text = metrics.text()
    expect(samples(text)).toEqual([
      'posthaste_hot_dropped_total{service="shop",destination="x"} 1',
      'posthaste_hot_dropped_total{service="shop",outbox="billing",destination="x"} 2',
    ])
    expect(text.match(/# TYPE posthaste_hot_dropped_total/g)).toHaveLength(1)
  })

  it('escapes what an event type may contain', () => {
    const metrics = prometheusMetrics()
    metrics.published('a "b" \\ c', 1)
    expect(samples(metrics.text())).toEqual(['posthaste_published_events_total{type="a \\"b\\" \\\\ c"} 1'])
  })

  it('goes on telling the breakers of those that it tells apart when there are more', () => {
    const metrics = prometheusMetrics({ maxDestinations: 2 })
    for (const name of ['a', 'b', 'c', 'd']) metrics.breakerState(name, 'closed')
    for (const name of ['a', 'b', 'c', 'd']) metrics.breakerState(name, 'open')
    expect(metrics.text().match(/^posthaste_breaker_state\{.*"open"\} .*$/gm)).toEqual([
      'posthaste_breaker_state{destination="a",state="open"} 1',
      'posthaste_breaker_state{destination="b",state="open"} 1',
    ])
  })

  it('answers over HTTP', async () => {
    const metrics = prometheusMetrics()
    metrics.hotDropped('x', 1)
    const server = createServer(metrics.handler)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`
    const answer = await fetch(address)
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(await answer.text()).toBe(metrics.text())
    expect((await fetch(address, { method: 'POST' })).status).toBe(405)
    expect(await (await fetch(address, { method: 'HEAD' })).text()).toBe('')
    await new Promise((resolve) => server.close(resolve))
  })

  it.each([
    [{ prefix: '1x' }, 'prefix must begin with a letter'],
    [{ labels: { 'a-b': 'c' } }, '"a-b" cannot be the name of a label'],
    [{ labels: { destination: 'c' } }, '"destination" cannot be the name of a label'],
    [{ labels: { a: 5 } }, '"a" must be text'],
    [{ maxTypes: 0 }, 'maxTypes must be a whole number from 1 to 10000'],
    [{ maxType: 5 }, 'maxType'],
  ])('refuses %j', (options, message) => {
    expect(() => prometheusMetrics(options as never)).toThrow(message)
  })
})
