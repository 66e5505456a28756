/**
 * The history of every delivery row. After each statement the rows are compared with how they were before it, and
 * each change is judged: who may insert, change, bury, finish or remove a row.
 */
import type { DeliveryStatus } from '../src/core/model/delivery.ts'
import type { DeliveryRow } from '../src/stores/memory/rows.ts'
import { isOwed } from './check-arrival.ts'
import { numberOf } from './truth.ts'
import type { World } from './world.ts'

/** A row as it was after the last statement, and what must be remembered of its past. */
export interface RowHistory {
  readonly id: string
  readonly eventId: string
  readonly n: number
  readonly destination: string
  readonly run: number
  readonly key: string | null
  readonly seq: bigint
  /** Added when it was stored already: by the reconciler, or by an operator. It has no order against live ones. */
  readonly reconciled: boolean
  readonly backfilled: boolean
  status: DeliveryStatus
  attempts: number
  token: string | null
  holdsKey: boolean
  wasDead: boolean
  endedAtMs: number | null
  /** The step in which a delayed row took its place. */
  activatedAt: number | null
  removed: boolean
}

const BACKFILL = 'operations.backfill'

const INSERTERS: ReadonlySet<string> = new Set([
  'commit',
  'queue.expand',
  'registry.reconcile',
  'operations.redrive',
  'operations.replay',
  'operations.edit',
  BACKFILL,
])

export class Ledger {
  readonly rows = new Map<string, RowHistory>()
  readonly #byJourney = new Map<string, RowHistory[]>()
  readonly #world: World

  constructor(world: World) {
    this.#world = world
  }

  /** All runs of an event at a destination, in order. */
  runs(n: number, destination: string): readonly RowHistory[] {
    return this.#byJourney.get(`${n} ${destination}`) ?? []
  }

  /** Numbers of the events whose deliveries a text names, and of those that share their keys. */
  namedIn(text: string): number[] {
    const rows = [...this.rows.values()]
    const named = rows.filter(({ id }) => text.includes(id))
    const isRelated = ({ destination, key }: RowHistory): boolean =>
      named.some((row) => row.key !== null && row.key === key && row.destination === destination)
    return [...new Set([...named, ...rows.filter(isRelated)].map(({ n }) => n))]
  }

  /** Compares everything with how it was before `statement`, which was asked for by `who`. */
  scan(statement: string, who: string): void {
    const { database } = this.#world
    for (const row of database.deliveries.values()) {
      const known = this.rows.get(row.id)
      if (known === undefined) this.#inserted(row, statement, who)
      else if (known.status !== row.status || known.attempts !== row.attempts)
        this.#changed(known, row, statement, who)
      if (known !== undefined) {
        known.token = row.token
        known.holdsKey = row.holdsKey
      }
    }
    if (this.rows.size === database.deliveries.size) return
    for (const known of this.rows.values()) {
      if (!known.removed && !database.deliveries.has(known.id)) this.#removed(known, statement, who)
    }
  }

  #inserted(row: DeliveryRow, statement: string, who: string): void {
    const world = this.#world
    const n = numberOf(world.database.events.get(row.eventId)?.record.data ?? '')
    const { id, eventId, destination, run, key, seq, status, attempts, token, holdsKey } = row
    const known: RowHistory = {
      id,
      eventId,
      n,
      destination,
      run,
      key,
      seq,
      reconciled: statement === 'registry.reconcile' || statement === BACKFILL,
      backfilled: statement === BACKFILL,
      status,
      attempts,
      token,
      holdsKey,
      wasDead: false,
      endedAtMs: null,
      activatedAt: null,
      removed: false,
    }
    this.rows.set(id, known)
    const journey = `${n} ${destination}`
    const runs = this.#byJourney.get(journey)
    // Also when cleanup has removed it meanwhile: it stays behind the reconciler, which would take it for missed.
    // Of what is older than the destination nothing is remembered when it is cleaned up, whether an operator added it or it
    // waited for its routes until the destination was there; so an operator may add it again, and runs count from 1 again.
    const isForgotten = (other: RowHistory, at: number): boolean =>
      other.removed && (runs ?? []).slice(at).some(({ backfilled }) => backfilled)
    const twice = runs?.some((other, at) => {
      if (other.eventId !== eventId) return false
      // An operator adds only what has no delivery at all, of whichever run.
      if (statement === BACKFILL) return !other.removed
      return other.run === run && !isForgotten(other, at)
    })
    if (twice)
      world.violate('7 finished is final', `run ${run} of e${n} for ${destination} exists twice`, [n])
    if (statement === BACKFILL) this.#judgeBackfill(n, destination)
    if (runs === undefined) this.#byJourney.set(journey, [known])
    else runs.push(known)
    const again = run > 1 || statement === 'operations.edit' || statement === BACKFILL
    if (!INSERTERS.has(statement) || again !== statement.startsWith('operations.')) {
      world.violate('7 finished is final', `${statement} made run ${run} of e${n} for ${destination}`, [n])
    }
    world.note(who, `${statement}: e${n} for ${destination} is ${status}${run > 1 ? `, run ${run}` : ''}`, [
      n,
    ])
  }

  /** What the destination hears by itself is not an operator's to add, however late it comes. */
  #judgeBackfill(n: number, destination: string): void {
    const world = this.#world
    const fact = world.truth.facts.get(n)
    const stored = fact !== undefined && fact.committedAt !== null
    if (stored && !isOwed(world, fact, destination)) return
    world.violate('2 no ghost', `e${n} was back-filled for ${destination}, which hears it anyway`, [n])
  }

  #changed(known: RowHistory, row: DeliveryRow, statement: string, who: string): void {
    const world = this.#world
    const { n, destination } = known
    const change = `${known.status} → ${row.status}, attempts ${known.attempts} → ${row.attempts}`
    world.note(who, `${statement}: e${n} for ${destination}: ${change}`, [n])
    const bad = (invariant: '5 attempts' | '7 finished is final', message: string): void =>
      world.violate(invariant, `${message} (e${n} for ${destination}, ${statement}: ${change})`, [n])
    if (known.status === 'done' || known.status === 'discarded')
      bad('7 finished is final', 'a finished run changed')
    if (known.status === 'dead' && !(row.status === 'discarded' && statement.startsWith('operations.'))) {
      bad('7 finished is final', 'a dead run changed without an operator')
    }
    // Nobody may have in hand what waits for its head.
    if (
      known.status === 'held' &&
      (row.status === 'done' || row.status === 'retry' || row.status === 'dead')
    ) {
      bad('7 finished is final', 'a held delivery was settled')
    }
    if (row.attempts < known.attempts) bad('5 attempts', 'attempts became fewer')
    if (row.status === 'discarded' && !statement.startsWith('operations.')) {
      bad('7 finished is final', 'a delivery was given up without an operator')
    }
    if (row.attempts > known.attempts && statement === 'queue.suspect') {
      world.count('quarantined')
      world.truth.answersFor(known.id).spent += row.attempts - known.attempts
    }
    if (row.status === 'dead' && known.status !== 'dead') {
      if (row.holdsKey) world.count('blockedKey')
      this.#died(known, row)
    }
    if (row.status === 'done' && known.status !== 'done') this.#done(known)
    this.#checkAttempts(known, row)
    if (statement === 'queue.activate') known.activatedAt = world.scheduler.steps
    known.status = row.status
    known.attempts = row.attempts
    known.endedAtMs = row.endedAtMs
    known.wasDead ||= row.status === 'dead'
  }

  /** Dead only by limit or because the receiver said so. */
  #died({ id, n, destination }: RowHistory, row: DeliveryRow): void {
    const { plan, truth } = this.#world
    const limit = plan.destinations.find(({ name }) => name === destination)?.maxAttempts ?? 0
    if (row.attempts >= limit || truth.answersFor(id).buried) return
    this.#world.violate(
      '5 attempts',
      `e${n} for ${destination} is dead after ${row.attempts} of ${limit} attempts, and nobody refused it for good`,
      [n],
    )
  }

  #done({ id, n, destination, run }: RowHistory): void {
    const fact = this.#world.truth.facts.get(n)
    if (fact === undefined) return
    const { receipts } = this.#world.truth.journey(fact, destination)
    if (receipts.some(({ deliveryId }) => deliveryId === id)) return
    this.#world.violate('1 no loss', `run ${run} of e${n} for ${destination} is done and never arrived`, [n])
  }

  /** An attempt is spent by a refusal, by an unknown end, or beforehand for a suspect; an outage spends none. */
  #checkAttempts({ id, n, destination }: RowHistory, row: DeliveryRow): void {
    const { failures, outages, spent } = this.#world.truth.answersFor(id)
    const success = row.status === 'done' ? 1 : 0
    // An event that breaks the connection again and again while others pass is charged from the third time on.
    const most = failures + spent + success + Math.max(0, outages - 2)
    if (row.attempts <= most) return
    this.#world.violate(
      '5 attempts',
      `e${n} for ${destination} has ${row.attempts} attempts, but only ${failures} refusals, ${spent} spent ` +
        `beforehand and ${outages} outages`,
      [n],
    )
  }

  #removed(known: RowHistory, statement: string, who: string): void {
    const { n, destination, status } = known
    known.removed = true
    this.#world.note(who, `${statement}: the row of e${n} for ${destination} (${status}) is gone`, [n])
    if (statement === 'queue.expand' && destination === '*') return
    if (statement !== 'maintenance.cleanup') {
      this.#world.violate('10 cleanup', `${statement} removed e${n} for ${destination}`, [n])
    }
  }
}
