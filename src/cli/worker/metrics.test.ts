import { expect, it } from 'vitest'
import type { LoadedWith } from '../../config/load-config.ts'
import type { OutboxHost } from '../../core/host.ts'
import { prometheusMetrics } from '../../prometheus/index.ts'
import { mergedText, WorkerMetrics } from './metrics.ts'

it('keeps the series of a family together, and adds labels that are not there yet', () => {
  const head = (name: string): string => `# HELP ${name} What it is.\n# TYPE ${name} counter\n`
  const first = `${head('a_total')}a_total 1\n${head('b_total')}b_total{type="x,worker=\\"9 } y"} 2\n`
  const second = `${head('a_total')}a_total{worker="mine"} 3\n${head('c_total')}`
  const merged = mergedText([
    { text: first, labels: { worker: '0' } },
    { text: second, labels: { worker: '1' } },
  ])
  expect(merged).toBe(
    `${head('a_total')}a_total{worker="0"} 1\na_total{worker="mine"} 3\n` +
      `${head('b_total')}b_total{worker="0",type="x,worker=\\"9 } y"} 2\n${head('c_total')}`,
  )
})

it('has every series once, also after an outbox was made anew with metrics of its own', () => {
  const worker = new WorkerMetrics(true)
  for (const paused of [true, false]) {
    const metrics = prometheusMetrics()
    worker.settingsFor({ metrics } as unknown as OutboxHost['given'], { name: 'shop' } as LoadedWith)
    metrics.setPaused('mailer', paused)
  }
  expect(worker.text().match(/^posthaste_paused.*$/gm)).toEqual([
    'posthaste_paused{outbox="shop",destination="mailer"} 0',
  ])
})
