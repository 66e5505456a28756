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
    const load: Load = async () => (await routes.refresh(store.registry))?.destinations
    for (const { name } of routes.registered) {
      more = (await reconcile(store, load, name, newId, added, marks)) || more
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
  const load = async () => (await store.registry.load()).destinations
  for (const { name } of await load()) {
    let more = true
    while (more) more = await reconcile(store, load, name, newId, added, new Map())
  }
}

/** The registry as it is now; undefined when it cannot be read. */
type Load = () => Promise<readonly RegisteredDestination[] | undefined>

const reconcile = async (
  store: Store,
  load: Load,
  name: string,
  newId: () => string,
  added: (destination: string, count: number) => void,
  marks: Map<string, bigint>,
): Promise<boolean> => {
  const batch = await store.registry.findUnreconciled(name, RECONCILE_BATCH)
  let missed: ReconcileBatch['events'] = []
  if (batch.events.length > 0) {
    // Only now: by patterns from before the look, events that a newer process has just asked for would be passed over
    // for ever.
    const destination = (await load())?.find((one) => one.name === name)
    if (destination === undefined) return false
    missed = missedBy(destination, batch.events)
  }
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

/** A pattern that came later does not bring the history along. */
const missedBy = (
  { patterns, patternsFrom }: RegisteredDestination,
  events: ReconcileBatch['events'],
): ReconcileBatch['events'] => {
  const compiled = patterns.map(compilePattern)
  return events.filter(({ type, seq }) =>
    compiled.some((pattern, i) => matches(pattern, type) && seq > (patternsFrom[i] ?? 0n)),
  )
}
