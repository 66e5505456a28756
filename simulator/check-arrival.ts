/**
 * Judged at the moment something arrives: it must be committed (no ghost), and everything of its key that comes
 * before it must be out of the way (order).
 */
import type { Ledger, RowHistory } from './ledger.ts'
import type { Fact, Journey } from './truth.ts'
import type { World } from './world.ts'

export const judgeArrival = (
  world: World,
  ledger: Ledger,
  destination: string,
  arrival: { readonly n: number; readonly run: number },
): Journey | null => {
  const { truth, scheduler } = world
  const { n, run } = arrival
  const fact = truth.facts.get(n)
  if (fact === undefined || fact.committedAt === null) {
    world.violate('2 no ghost', `e${n} arrived at ${destination} and is not committed`, [n])
    return null
  }
  const journey = truth.journey(fact, destination)
  if (journey.firstAttemptAt !== null || run !== 1) return journey
  journey.firstAttemptAt = scheduler.steps
  judgeHistory(world, ledger, destination, fact)
  if (fact.key !== null) judgeOrder(world, ledger, destination, fact)
  return journey
}

/** What was stored before a destination was declared is not its business, unless an operator wants it to be. */
const judgeHistory = (world: World, ledger: Ledger, destination: string, fact: Fact): void => {
  const [first] = ledger.runs(fact.n, destination)
  if (first?.reconciled !== true || first.backfilled) return
  const declared = world.truth.firstDeclaredAt.get(destination) ?? new Map<string, number>()
  const known = [...declared].some(
    ([pattern, step]) => matches(pattern, fact.type) && step <= (fact.storedAt ?? 0),
  )
  if (known) return
  world.violate('2 no ghost', `e${fact.n} was added for ${destination}, which was declared after it`, [
    fact.n,
  ])
}

const judgeOrder = (world: World, ledger: Ledger, destination: string, fact: Fact): void => {
  if (ledger.runs(fact.n, destination)[0]?.reconciled === true) return
  for (const earlier of world.truth.byKey.get(fact.key as string) ?? []) {
    if (earlier === fact || !isBefore(world, ledger, destination, earlier, fact)) continue
    const why = whyInTheWay(world, ledger, destination, earlier)
    if (why === null) continue
    world.violate(
      '4 order',
      `e${fact.n} arrived at ${destination} before e${earlier.n} of the same key "${fact.key}", which ${why}`,
      [earlier.n, fact.n],
    )
    return
  }
}

/**
 * e1 was there before anybody began to publish e2, or comes first in the same transaction. A delayed event takes
 * its place when it is due: then it is as if it were published and committed at that moment.
 */
const isBefore = (world: World, ledger: Ledger, destination: string, e1: Fact, e2: Fact): boolean => {
  if (e1.transaction === e2.transaction && e1.delayMs === 0 && e2.delayMs === 0) return e1.place < e2.place
  const activatedAt = ({ n }: Fact): number | null => ledger.runs(n, destination)[0]?.activatedAt ?? null
  const placed = e1.delayMs > 0 ? activatedAt(e1) : e1.committedAt
  // With locked keys a writer waits until those before it have committed, and then it is behind them.
  const waits = world.plan.settings.keyOrder === 'locked' && e1.delayMs === 0 && e2.delayMs === 0
  if (waits) return placed !== null && e2.storedAt !== null && placed <= e2.storedAt
  const began = e2.delayMs > 0 ? activatedAt(e2) : e2.beganAt
  return placed !== null && began !== null && placed < began
}

/** Null when the earlier event no longer keeps others waiting, or never did. */
const whyInTheWay = (world: World, ledger: Ledger, destination: string, earlier: Fact): string | null => {
  if (earlier.committedAt === null || !isOwed(world, earlier, destination)) return null
  if (world.truth.journey(earlier, destination).acceptedAt !== null) return null
  const runs = ledger.runs(earlier.n, destination)
  const [first] = runs
  if (first === undefined) {
    const unrouted = ledger.runs(earlier.n, '*')[0]
    // Without a row it was missed by an older publisher; what the reconciler adds has no order.
    return unrouted !== undefined && !unrouted.removed ? 'waits for its routes' : null
  }
  if (first.reconciled) return null
  return whyLatestWaits(world, destination, first, runs.at(-1) as RowHistory)
}

const whyLatestWaits = (
  world: World,
  destination: string,
  first: RowHistory,
  last: RowHistory,
): string | null => {
  const plan = world.plan.destinations.find(({ name }) => name === destination)
  const policy = plan?.deadHead
  // Its sender knows that it is dead before the database does, and goes on.
  const { buried, failures, spent } = world.truth.answersFor(first.id)
  const dead = first.wasDead || buried || failures + spent >= (plan?.maxAttempts ?? 0)
  if (policy === 'skip' && dead) return null
  if (last.removed || last.status === 'discarded') return null
  return last.status === 'dead' ? `is dead and keeps its key waiting (${policy})` : `is ${last.status}`
}

/** The destination hears what is stored from the moment on in which it is declared. */
export const isOwed = (world: World, fact: Fact, destination: string): boolean => {
  const { storedAt, type } = fact
  if (storedAt === null) return false
  const declared = world.truth.declaredAt.get(destination) ?? new Map<string, number>()
  return [...declared].some(([pattern, step]) => matches(pattern, type) && step <= storedAt)
}

export const hears = (world: World, destination: string, type: string): boolean => {
  const plan = world.plan.destinations.find(({ name }) => name === destination)
  return [...(plan?.patterns ?? []), ...(plan?.laterPatterns ?? [])].some((one) => matches(one, type))
}

const matches = (pattern: string, type: string): boolean =>
  pattern.endsWith('*') ? type.startsWith(pattern.slice(0, -1)) : pattern === type
