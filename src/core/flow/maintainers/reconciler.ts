/** Adds deliveries that publishers who did not know a destination left out. */
import { laneOf } from '../../model/lane.ts'
import { compilePattern, matches } from '../../policy/routing.ts'
import type { ReconcileBatch, RegisteredDestination, Store } from '../../spi/index.ts'
import type { Routes } from '../routes.ts'
import type { Duty } from './duty.ts'

const RECONCILE_EVERY_MS = 30_000
const RECONCILE_BATCH = 500

/**
 * During a deploy an older process publishes without knowing a new destination. Its events carry the older
 * registry version; this adds the deliveries that are missing. They have no order against live ones.
 *
 * How far it has looked is remembered also when nothing is missing: cleanup keeps everything behind that, because an
 * event whose delivery is gone would look like one that was missed.
 */
export const reconcilerDuty = (
  store: Store,
  routes: Routes,
  newId: () => string,
  added: (destination: string, count: number) => void,
  marks: Map<string, bigint> = new Map(),
): Duty => ({
  name: 'reconciler',
  intervalMs: RECONCILE_EVERY_MS,
  firstAfterMs: RECONCILE_EVERY_MS / 10,
  async step() {
    await routes.refresh(store.registry)
    let more = false
    for (const destination of routes.registered) {
      more = (await reconcile(store, destination, newId, added, marks)) || more
    }
    return more
  },
})

/** For a cleanup that somebody asks for, also where no process looks after the tables. */
export const reconcileAll = async (
  store: Store,
  newId: () => string,
  added: (destination: string, count: number) => void,
): Promise<void> => {
  const { destinations } = await store.registry.load()
  for (const destination of destinations) {
    let more = true
    while (more) more = await reconcile(store, destination, newId, added, new Map())
  }
}

const reconcile = async (
  store: Store,
  destination: RegisteredDestination,
  newId: () => string,
  added: (destination: string, count: number) => void,
  marks: Map<string, bigint>,
): Promise<boolean> => {
  const { name } = destination
  const batch = await store.registry.findUnreconciled(name, RECONCILE_BATCH)
  const patterns = destination.patterns.map(compilePattern)
  // A pattern that came later does not bring the history along.
  const isMissed = ({ type, seq }: ReconcileBatch['events'][number]): boolean =>
    patterns.some((pattern, i) => matches(pattern, type) && seq > (destination.patternsFrom[i] ?? 0n))
  const missed = batch.events.filter(isMissed)
  if (missed.length === 0 && !batch.more && marks.get(name) === batch.scannedTo) return false
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
  marks.set(name, batch.scannedTo)
  if (count > 0) added(name, count)
  return batch.more
}
