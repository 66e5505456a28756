/** Judged when all is said and done: nothing is lost, nothing is still waiting, every duplicate has its reason. */
import { hears, isOwed } from './check-arrival.ts'
import type { Ledger, RowHistory } from './ledger.ts'
import { isUnambiguous } from './plan.ts'
import { type Fact, type Journey, numberOf } from './truth.ts'
import type { World } from './world.ts'

interface Waiting {
  readonly fact: Fact
  readonly destination: string
  readonly why: string
}

const ENDED: ReadonlySet<string> = new Set(['done', 'dead', 'discarded'])

/** What should have arrived by now and has not. */
export const findWaiting = (world: World, ledger: Ledger): Waiting[] => {
  const waiting: Waiting[] = []
  for (const fact of world.truth.facts.values()) {
    if (fact.committedAt === null) continue
    for (const { name } of world.plan.destinations) {
      const why = whyUnfinished(world, ledger, fact, name)
      if (why !== null) waiting.push({ fact, destination: name, why })
    }
  }
  return waiting
}

const whyUnfinished = (world: World, ledger: Ledger, fact: Fact, destination: string): string | null => {
  const runs = ledger.runs(fact.n, destination)
  if (runs.length === 0) {
    if (!isOwed(world, fact, destination)) return null
    const unrouted = ledger.runs(fact.n, '*')[0]
    // Cleanup took the event before the reconciler could see that somebody missed it.
    if (unrouted?.status === 'discarded' || wasCleanedUp(world, ledger, fact)) return null
    return unrouted !== undefined && !unrouted.removed ? 'has no routes yet' : 'has no delivery'
  }
  const open = runs.find((row) => !ENDED.has(row.status) && !row.removed)
  if (open === undefined || isBehindDeadHead(ledger, open)) return null
  return `is ${open.status}, run ${open.run}, attempts ${open.attempts}`
}

const wasCleanedUp = ({ database, plan, counts }: World, ledger: Ledger, { n }: Fact): boolean => {
  if (!counts.has('cleanup')) return false
  if (plan.destinations.some(({ name }) => ledger.runs(n, name).some(({ removed }) => removed))) return true
  for (const { record } of database.events.values()) if (numberOf(record.data) === n) return false
  return true
}

/** A dead head that blocks its key keeps it waiting for an operator; that is what was asked for. */
const isBehindDeadHead = (ledger: Ledger, row: RowHistory): boolean => {
  if (row.key === null) return false
  for (const other of ledger.rows.values()) {
    if (other.destination !== row.destination || other.key !== row.key || other.removed) continue
    if (other.status === 'dead' && other.holdsKey) return true
  }
  return false
}

export const checkEnd = (world: World, ledger: Ledger): void => {
  const waiting = findWaiting(world, ledger)
  const [first] = waiting
  if (first !== undefined) {
    const { fact, destination, why } = first
    const lost = why === 'has no delivery'
    world.violate(
      lost ? '1 no loss' : '9 liveness',
      `${waiting.length} deliveries did not get there; e${fact.n} for ${destination} ${why}`,
      [fact.n],
    )
  }
  for (const journey of world.truth.journeys.values()) checkJourney(world, ledger, journey)
}

const checkJourney = (world: World, ledger: Ledger, journey: Journey): void => {
  const { fact, destination, receipts } = journey
  if (!hears(world, destination, fact.type)) {
    world.violate(
      '2 no ghost',
      `e${fact.n} (${fact.type}) arrived at ${destination}, which does not hear it`,
      [fact.n],
    )
  }
  for (const { id, run } of ledger.runs(fact.n, destination)) {
    const all = receipts.filter(({ deliveryId, copied }) => deliveryId === id && !copied)
    const unexplained = all.filter((it) => !(it.replyFailed || it.rightLost || it.senderGone))
    const strict = isUnambiguous(world.plan) && all.length > 1
    if (unexplained.length <= 1 && !strict) continue
    const times = all.map(({ boot, atMs }) => `by ${boot} at ${(atMs / 1_000).toFixed(3)} s`).join(', ')
    world.violate(
      '3 duplicates',
      `run ${run} of e${fact.n} arrived at ${destination} ${all.length} times (${times})`,
      [fact.n],
    )
  }
}

export const countDuplicates = (world: World): { deliveries: number; duplicates: number } => {
  let deliveries = 0
  let duplicates = 0
  for (const { receipts } of world.truth.journeys.values()) {
    deliveries += receipts.length
    duplicates += receipts.length - new Set(receipts.map(({ deliveryId }) => deliveryId)).size
  }
  return { deliveries, duplicates }
}
