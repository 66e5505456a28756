import { expect, it } from 'vitest'
import { mergedText } from './metrics.ts'

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
