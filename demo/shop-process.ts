/**
 * The shop as a process of its own, for `--crash`: it takes orders and delivers until it is done or killed. It
 * knows nothing of what its predecessors did but what the database says.
 */
import { LANES } from '../src/core/model/lane.ts'
import type { Stats } from './board.ts'
import { type Call, openCallLog } from './calls.ts'
import { DESTINATION_NAMES } from './catalogue.ts'
import { drained, listeningMetrics, openTables, produce, watch } from './producer.ts'
import { openShop, type Switches } from './shop.ts'

export interface Orders {
  readonly database: string
  readonly calls: string
  readonly events: number
  readonly seed: number
  /** How many shops were killed before this one. */
  readonly predecessors: number
}

export type Report =
  | { readonly kind: 'call'; readonly call: Call }
  | { readonly kind: 'stats'; readonly stats: Stats }
  | { readonly kind: 'progress'; readonly published: number; readonly rolledBack: number }
  | { readonly kind: 'lanes' }
  | { readonly kind: 'closing' }
  | { readonly kind: 'over'; readonly clean: boolean }

const DRAIN_TIMEOUT_MS = 30_000

const report = (message: Report): void => {
  process.send?.(message)
}

/** After a crash the lanes come when the dead process's lease is over; until then keyed events must wait for it. */
const untilLanesCame = (switches: Switches): ((destination: string, count: number) => void) => {
  const windows = DESTINATION_NAMES.map((destination) => ({
    destination,
    fault: 'crash' as const,
    fromMs: 0,
    toMs: Number.POSITIVE_INFINITY,
  }))
  switches.windows.push(...windows)
  return (name, count) => {
    const window = windows.find(({ destination }) => destination === name)
    if (window === undefined || count < LANES || window.toMs !== Number.POSITIVE_INFINITY) return
    window.toMs = Date.now()
    if (windows.every(({ toMs }) => toMs !== Number.POSITIVE_INFINITY)) report({ kind: 'lanes' })
  }
}

const main = async (orders: Orders): Promise<void> => {
  let lanes: (destination: string, count: number) => void = () => undefined
  const metrics = listeningMetrics({ lanes: (destination, count) => lanes(destination, count) })
  const calls = openCallLog(orders.calls, (call) => report({ kind: 'call', call }))
  const shop = openShop({ file: orders.database, calls, metrics })
  if (orders.predecessors > 0) lanes = untilLanesCame(shop.switches)
  await shop.outbox.start()
  const progress = await openTables(shop)
  const watching = watch(shop, metrics, progress, (stats) => report({ kind: 'stats', stats }))
  const progressed = (): void =>
    report({ kind: 'progress', published: progress.published, rolledBack: progress.rolledBack })
  await produce(shop, progress, { ...orders, scenes: [], metrics, progressed })
  report({ kind: 'closing' })
  const clean = await drained(watching.look, DRAIN_TIMEOUT_MS)
  await watching.stop()
  await shop.outbox.close()
  report({ kind: 'over', clean })
  process.disconnect?.()
}

// Without its parent nobody would ever end it.
process.once('disconnect', () => process.exit())
process.once('message', (orders: Orders) => {
  main(orders).catch((error: unknown) => {
    console.error(error)
    process.exit(1)
  })
})
