import { expect, it } from 'vitest'
import { overviewLines } from './commands/status.ts'
import { deliveryColumns } from './show.ts'
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

/** All but the names is the same in every row, as it is where nothing is wrong. */
const overviewOf = (names: readonly string[], width: number): readonly string[] => {
  const counts = { pending: 1_234, done: 56_789, retry: 0, dead: 12, discarded: 0, scheduled: 0, held: 0 }
  const destinations = names.map((destination) => ({
    ...{ destination, state: 'serving' as const, counts, oldestLagMs: 183_000, donePerSecond: 0 },
    ...{ workers: 1, openBreakers: [], leftLanes: [] },
  }))
  const given = { name: 'shop', store: 'sqlite', atMs: 0, destinations, workers: [], blockedKeys: [] }
  return overviewLines(given as unknown as Parameters<typeof overviewLines>[0], painter(false), width)
}

it.each([
  [80, ['customer-notifications-email', 'customer-notifications-push', 'audit']],
  [80, ['shop-orders-eu-index', 'shop-orders-us-index', 'audit']],
  [60, ['customer-notifications-email', 'customer-notifications-push', 'audit']],
])('status in %i columns tells %j apart, and shows what fits of them', (width, names) => {
  const lines = overviewOf(names, width).slice(1, names.length + 2)
  const shown = lines.slice(1).map((line) => line.split(' ')[0] ?? '')
  expect(new Set(shown).size).toBe(names.length)
  for (const [index, name] of names.entries()) {
    const [head, tail = ''] = (shown[index] ?? '').split('…') as [string, string?]
    expect([name.startsWith(head), name.endsWith(tail)]).toEqual([true, true])
  }
  const longest = Math.max(...lines.map(({ length }) => length))
  expect(longest).toBeLessThanOrEqual(width)
  // Nothing is left free that a name could have.
  const needed = Math.max(...names.map(({ length }) => length))
  if (Math.max(...shown.map(({ length }) => length)) < needed) expect(longest).toBeGreaterThan(width - 10)
})

it('a name is cut in its middle, in columns that do not give way first too', () => {
  const columns: readonly Column<string>[] = [
    { title: 'event', text: () => '019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e', whole: true },
    { title: 'destination', text: (row) => row, name: true },
  ]
  const [, row] = tableLines(['customer-notifications-email'], columns, painter(false), 52)
  expect(row).toBe('019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e custome…s-email')
})

it.each([80, 60, 45])('an id is never cut in a terminal of %i columns', (width) => {
  const id = '019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e'
  const columns: readonly Column<string>[] = [
    { title: 'event', text: (row) => row, whole: true },
    ...COLUMNS.map(({ title, text }) => ({ title, text })),
  ]
  const lines = tableLines([id], columns, painter(false), width)
  expect(lines[1]).toContain(id)
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(width)
})

it('what people came for is not left out, and what is left out is said', () => {
  const columns: readonly Column<string>[] = [
    { title: 'event', text: () => '019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e', whole: true },
    { title: 'type', text: () => 'order.placed' },
    { title: 'attempts', text: () => '1' },
    { title: 'stored', text: () => '1m 20s ago' },
    { title: 'last error', text: (row) => row, flexible: true },
  ]
  const [head, row, note] = tableLines(['the place hung up on us'], columns, painter(false), 70)
  expect(head).toMatch(/^event +type +attempts +last/)
  expect(row).toContain('the pla')
  expect(note).toBe('no room for: stored')
})

it('a list of deliveries says in every terminal what became of them', () => {
  const delivery = {
    eventId: '019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e',
    type: 'order.placed',
    destination: 'search-index',
    run: 2,
    status: 'discarded',
    attempts: 3,
    createdAtMs: 0,
    key: 'order-4711',
    lastError: 'the place hung up on us',
  } as Parameters<ReturnType<typeof deliveryColumns>[number]['text']>[0]
  for (const width of [200, 100, 80, 60]) {
    const [, row] = tableLines([delivery], deliveryColumns(100_000), painter(false), width)
    expect(row).toContain('discarded')
  }
})
