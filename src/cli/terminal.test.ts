import { expect, it } from 'vitest'
import { type Column, painter, tableLines } from './terminal.ts'

const TITLES = [
  'destination',
  'state',
  'pending',
  'retry',
  'held',
  'scheduled',
  'dead',
  'done',
  'breaker',
  'lag',
  'rate',
]
const COLUMNS: readonly Column<string>[] = TITLES.map((title, index) => ({
  title,
  text: (row) => (index === 0 ? row : String(index)),
  ...(index === 0 ? { flexible: true } : {}),
}))

it.each([200, 100, 80, 60, 40, 20])('a table is no wider than a terminal of %i columns', (width) => {
  const lines = tableLines(['search-index-of-products', 'mailer'], COLUMNS, painter(false), width)
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(width)
  if (width < 80) return
  for (const title of TITLES.slice(1)) expect(lines[0]).toContain(title)
})
