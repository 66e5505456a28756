/**
 * The shop of one process: its outbox and the listeners at its four destinations. What goes wrong is switched on
 * and off from outside; the listeners know nothing but that a mail server does not answer or an address is unreadable.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createOutbox, type Metrics, OutageError, type Outbox } from '../src/index.ts'
import { type SqlExecutor, type SqliteHandle, sqliteStore } from '../src/stores/sqlite/index.ts'
import type { CallLog, Fault } from './calls.ts'
import { DESTINATION_NAMES, DESTINATIONS, type DestinationName } from './catalogue.ts'
import { timedCommits } from './commit-clock.ts'

/** Small, so that a burst overflows it and shows what happens then: the rest is read from the database. */
export const HOT_QUEUE = 64

/** Short, because a killed process must not be missed for long in a demo. The defaults are 15 and 30 s. */
const LEASES = { laneLeaseMs: 1_000, hotLeaseMs: 1_500 }

export interface Switches {
  mailerDown: boolean
  /** Orders with an address like this make the warehouse fail, until somebody fixes it. */
  warehouseFixed: boolean
  /** Events stored in these times (wall clock) were touched by what we did to the destination. */
  readonly windows: { readonly destination: string; readonly fault: Fault; fromMs: number; toMs: number }[]
}

export interface Shop {
  readonly outbox: Outbox<SqliteHandle, SqlExecutor, DestinationName | 'local'>
  readonly switches: Switches
  /** Ids published in a transaction, so that its commit can be timed. */
  published(tx: SqliteHandle, ids: readonly string[]): void
}

export interface ShopParts {
  readonly file: string
  readonly calls: CallLog
  readonly metrics: Metrics
}

export const UNREADABLE = '¿'
const FLAKY_EVERY = 11

/** How often the partner's API fails for a payment before it takes it: most never, some once or twice. */
const flakyFailures = (number: number): number => (number % FLAKY_EVERY === 4 ? 1 + (number % 2) : 0)

const faultOf = (
  destination: string,
  payload: Record<string, unknown>,
  attempt: number,
  on: Switches,
): Fault | null => {
  if (destination === 'mailer' && on.mailerDown) return 'outage'
  const poisoned = typeof payload.address === 'string' && payload.address.includes(UNREADABLE)
  if (destination === 'warehouse' && poisoned && !on.warehouseFixed) return 'poison'
  const number = typeof payload.number === 'number' ? payload.number : 0
  return destination === 'partner' && attempt <= flakyFailures(number) ? 'flaky' : null
}

const fail = (fault: Fault): Error => {
  if (fault === 'outage') return new OutageError('the mail server does not answer')
  return new Error(fault === 'poison' ? 'the address cannot be read' : 'the partner answered 503')
}

export const openShop = ({ file, calls, metrics }: ShopParts): Shop => {
  const store = sqliteStore({ file })
  const publishedIn = new WeakMap<SqliteHandle, string[]>()
  const committedAt = new Map<string, number>()
  const transactions = timedCommits(store.transactions, (tx, at) => {
    for (const id of publishedIn.get(tx) ?? []) committedAt.set(id, at)
    // Old ones were heard long ago; without a bound the map would grow with the shop.
    for (const id of committedAt.keys()) {
      if (committedAt.size <= 20_000) break
      committedAt.delete(id)
    }
  })
  const outbox = createOutbox({
    store,
    transactions,
    destinations: DESTINATIONS,
    metrics,
    hotQueueCapacity: HOT_QUEUE,
    pollIntervalMs: 100,
    pollIdleMaxMs: 250,
    ...LEASES,
  })
  const switches: Switches = { mailerDown: false, warehouseFixed: false, windows: [] }
  for (const name of DESTINATION_NAMES) listen(outbox, name, calls, switches, committedAt)
  return {
    outbox,
    switches,
    published(tx, ids) {
      const known = publishedIn.get(tx)
      if (known === undefined) publishedIn.set(tx, [...ids])
      else known.push(...ids)
    },
  }
}

const listen = (
  outbox: Shop['outbox'],
  name: DestinationName,
  calls: CallLog,
  switches: Switches,
  committedAt: ReadonlyMap<string, number>,
): void => {
  outbox.on<Record<string, unknown>>(name, '*', async (event, { source, attempt, run }) => {
    const startedAt = performance.now()
    const committed = committedAt.get(event.id)
    // Mail, paper and HTTP take a moment.
    await sleep(name === 'analytics' ? 1 : 2 + (startedAt % 3))
    const fault = faultOf(name, event.payload, attempt, switches)
    calls.write({
      eventId: event.id,
      destination: name,
      run,
      attempt,
      path: source,
      pid: process.pid,
      ok: fault === null,
      fault: fault ?? touchedBy(name, event.createdAt.getTime(), event.headers.pid, switches),
      latencyMs:
        source === 'hot' && committed !== undefined ? Number((startedAt - committed).toFixed(3)) : null,
    })
    if (fault !== null) throw fail(fault)
  })
}

/** It went well now, but it could not be on time because of what we did: to its destination, or to its process. */
const touchedBy = (name: string, storedAtMs: number, pid: string | undefined, on: Switches): Fault | null => {
  if (pid !== undefined && pid !== String(process.pid)) return 'crash'
  const window = on.windows.find(
    ({ destination, fromMs, toMs }) => destination === name && storedAtMs >= fromMs && storedAtMs <= toMs,
  )
  return window?.fault ?? null
}
