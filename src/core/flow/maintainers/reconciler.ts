/** Adds deliveries that publishers who did not know a destination left out. */
import { laneOf } from '../../model/lane.ts'
import { compilePattern, matches } from '../../policy/routing.ts'
import type { ReconcileBatch, Store } from '../../spi/index.ts'
import type { Routes } from '../routes.ts'
import type { Duty } from './duty.ts'

const RECONCILE_EVERY_MS = 30_000
const RECONCILE_BATCH = 500

/**
 * During a deploy an older process publishes without knowing a new destination. Its events carry the older
 * registry version; this adds the deliveries that are missing. They have no order against live ones.
 */
export const reconcilerDuty = (
  store: Store,
  routes: Routes,
  newId: () => string,
  added: (destination: string, count: number) => void,
): Duty => ({
  name: 'reconciler',
  intervalMs: RECONCILE_EVERY_MS,
  firstAfterMs: RECONCILE_EVERY_MS / 10,
  async step() {
    await routes.refresh(store.registry)
    let more = false
    for (const { name } of routes.registered) {
      more = (await reconcile(store, routes, name, newId, added)) || more
    }
    return more
  },
})

const reconcile = async (
  store: Store,
  routes: Routes,
  name: string,
  newId: () => string,
  added: (destination: string, count: number) => void,
): Promise<boolean> => {
  const batch = await store.registry.findUnreconciled(name, RECONCILE_BATCH)
  if (batch.events.length === 0 && !batch.more) return false
  // Only now: by patterns from before the look, events that a newer process has just asked for would be passed over
  // for ever.
  const registered = (await routes.refresh(store.registry))?.destinations
  const destination = registered?.find((one) => one.name === name)
  if (destination === undefined) return false
  const patterns = destination.patterns.map(compilePattern)
  // A pattern that came later does not bring the history along.
  const isMissed = ({ type, seq }: ReconcileBatch['events'][number]): boolean =>
    patterns.some((pattern, i) => matches(pattern, type) && seq > (destination.patternsFrom[i] ?? 0n))
  const missed = batch.events.filter(isMissed)
  const deliveries = missed.map(({ id, seq, key, size }) => ({
    id: newId(),
    eventId: id,
    destination: name,
    lane: laneOf(key ?? id),
    key,
    size,
    seq,
  }))
  const count = await store.registry.reconcile(name, deliveries, batch.scannedTo)
  if (count > 0) added(name, count)
  return batch.more
}
