/**
 * Stands directly at the database and looks at every statement before and after: rights, cleanup and the ledger
 * are judged here, on the rows themselves, whatever the store answers.
 */
import { ERROR_CODES, StoreError } from '../src/core/errors.ts'
import { LANES } from '../src/core/model/lane.ts'
import type {
  CleanupRequest,
  DestinationDeclaration,
  InsertRequest,
  Settlement,
  SettleRequest,
  SettleResult,
} from '../src/core/spi/index.ts'
import { checkInvariants, type MemoryTransaction } from '../src/stores/memory/index.ts'
import type { DeliveryRow } from '../src/stores/memory/rows.ts'
import { judgeStatement, judgeTurns } from './check-statement.ts'
import { measure } from './coverage.ts'
import type { Call, Layer } from './intercept.ts'
import type { Ledger } from './ledger.ts'
import { noteStored } from './transactions.ts'
import type { World } from './world.ts'

const CHANGES: ReadonlySet<string> = new Set([
  'commit',
  'queue.activate',
  'queue.suspect',
  'queue.extend',
  'queue.hold',
  'queue.settle',
  'queue.expand',
  'registry.reconcile',
  'operations.redrive',
  'operations.replay',
  'operations.discard',
  'operations.edit',
  'operations.backfill',
  'maintenance.cleanup',
])

/** Looking at all indexes is dear; a mistake in them stays there until the next look. */
const INVARIANTS_EVERY = 16

export class Observer {
  readonly #world: World
  readonly #ledger: Ledger
  readonly #who: string

  constructor(world: World, ledger: Ledger, who: string) {
    this.#world = world
    this.#ledger = ledger
    this.#who = who
  }

  readonly layer: Layer = async (name, args, next) => {
    const result = await this.#observe(name, args, next)
    measure(this.#world, name, args, result)
    return result
  }

  async #observe(name: string, args: readonly unknown[], next: Call): Promise<unknown> {
    if (name === 'queue.settle') return await this.#settle(args[0] as SettleRequest, next)
    if (name === 'maintenance.cleanup') return await this.#cleanup(args[0] as CleanupRequest, next)
    if (name === 'insert') return await this.#insert(args, next)
    const result = await judgeStatement(this.#world, this.#who, name, args, next)
    if (name.startsWith('registry.')) this.#noteRegistry(name, args[0], result)
    if (CHANGES.has(name)) this.#after(name)
    return result
  }

  during(name: string, change: () => void): void {
    change()
    this.#after(name)
  }

  #after(name: string): void {
    this.#ledger.scan(name, this.#who)
    if (this.#world.scheduler.steps % INVARIANTS_EVERY === 0) this.checkDatabase()
  }

  checkDatabase(): void {
    for (const problem of checkInvariants(this.#world.database)) {
      this.#world.violate('11 reachable', problem, this.#ledger.namedIn(problem))
    }
  }

  async #insert(args: readonly unknown[], next: Call): Promise<unknown> {
    const world = this.#world
    const { steps } = world.scheduler
    try {
      const result = await next(args)
      // Only now, because it may have waited for somebody who writes the same key.
      if (world.scheduler.steps > steps) world.count('lockWait')
      noteStored(world, args[1] as InsertRequest)
      judgeTurns(world, args[0] as MemoryTransaction, args[1] as InsertRequest)
      return result
    } catch (error) {
      if (error instanceof StoreError && error.code === ERROR_CODES.storeBusy) world.count('keyDeadlock')
      throw error
    }
  }

  #noteRegistry(name: string, given: unknown, result: unknown): void {
    const { truth, scheduler, database } = this.#world
    if (name === 'registry.declare') {
      for (const one of given as readonly DestinationDeclaration[])
        truth.declare(one.name, one.patterns, scheduler.steps)
    }
    if (name === 'registry.configure') {
      const destination = given as string
      const paused = database.registry.get(destination)?.paused === true
      if (!paused) truth.pausedSince.delete(destination)
      else if (!truth.pausedSince.has(destination)) truth.pausedSince.set(destination, scheduler.now)
    }
    if (name === 'registry.load') truth.registryReadAt.set(result as object, scheduler.now)
  }

  // -------------------------------------------------------------------------------------------- rights

  async #settle(request: SettleRequest, next: Call): Promise<unknown> {
    const { database } = this.#world
    const before = request.settlements.map((settlement) => {
      const row = database.deliveries.get(settlement.delivery.id)
      return {
        settlement,
        row,
        was: row === undefined ? '' : stateOf(row),
        valid: this.#isValid(settlement, row),
      }
    })
    const result = (await next([request])) as SettleResult
    const lost = new Set(result.lost)
    // The answer names deliveries: one that was settled twice in this request, validly once, is not told apart.
    const settled = new Set(
      before.flatMap(({ settlement, valid }) => (valid ? [settlement.delivery.id] : [])),
    )
    for (const { settlement, row, was } of before) {
      const { id } = settlement.delivery
      if (!settled.has(id) && !lost.has(id)) this.#world.count('repeatedSettle')
      if (!settled.has(id) && row !== undefined && changedByOthers(was, row)) {
        const n = this.#ledger.rows.get(id)?.n ?? -1
        this.#world.violate(
          '6 stale right',
          `${this.#who} settled e${n} for ${row.destination} as ${settlement.outcome.kind} by a right it had lost`,
          [n],
        )
      }
      this.#noteSettled(settlement, lost.has(id) && !settled.has(id))
    }
    this.#after('queue.settle')
    return result
  }

  /** By the rows and the worker's own row, not by what the store thinks. */
  #isValid({ delivery }: Settlement, row: DeliveryRow | undefined): boolean {
    if (row === undefined || row.status === 'done' || row.status === 'dead' || row.status === 'discarded')
      return false
    const { right } = delivery
    if (right.kind === 'token') return row.token === right.token
    const { database } = this.#world
    if (database.workers.get(right.workerId)?.fenced !== false) return false
    const owner = database.lanes.get(row.destination)?.[row.lane % LANES]?.owner ?? null
    if (owner !== right.workerId) {
      const n = this.#ledger.rows.get(row.id)?.n ?? -1
      this.#world.violate(
        '6 stale right',
        `${this.#who} settles e${n} for ${row.destination} in lane ${row.lane}, which it gave away while it was in flight`,
        [n],
      )
    }
    return true
  }

  #noteSettled({ delivery, outcome }: Settlement, lost: boolean): void {
    const known = this.#ledger.rows.get(delivery.id)
    if (lost) {
      this.#world.count('staleSettle')
      this.#world.note(
        this.#who,
        `queue.settle: the right to e${known?.n} for ${delivery.destination} is lost`,
        [known?.n ?? -1],
      )
    }
    const fact = this.#world.truth.facts.get(known?.n ?? -1)
    if (fact === undefined) return
    for (const receipt of this.#world.truth.journey(fact, delivery.destination).receipts) {
      if (receipt.deliveryId !== delivery.id || receipt.boot !== this.#who) continue
      if (lost) receipt.rightLost = true
      else if (outcome.kind === 'done') receipt.settled = true
    }
  }

  // ------------------------------------------------------------------------------------------- cleanup

  async #cleanup(request: CleanupRequest, next: Call): Promise<unknown> {
    const { database } = this.#world
    const now = database.now()
    const mayGo = new Set<string>()
    const events = new Map(
      [...database.events.values()].map(({ record, deliveries }) => [record.id, [...deliveries]]),
    )
    for (const row of database.deliveries.values()) {
      const endedBefore = (age: number | null): boolean =>
        age !== null && (row.endedAtMs ?? now + 1) <= now - age
      const finished = row.status === 'done' || row.status === 'discarded'
      const dead = row.status === 'dead' && !row.holdsKey
      if (
        (finished && endedBefore(request.doneOlderThanMs)) ||
        (dead && endedBefore(request.deadOlderThanMs))
      ) {
        mayGo.add(row.id)
      }
    }
    const result = await next([request])
    for (const known of this.#ledger.rows.values()) {
      if (known.removed || database.deliveries.has(known.id) || mayGo.has(known.id)) continue
      this.#world.violate(
        '10 cleanup',
        `cleanup removed e${known.n} for ${known.destination}, which is ${known.status}`,
        [known.n],
      )
    }
    for (const [id, deliveries] of events) {
      if (database.events.has(id) || deliveries.every((row) => mayGo.has(row.id))) continue
      this.#world.violate('10 cleanup', `cleanup removed event ${id}, which has deliveries left`)
    }
    this.#after('maintenance.cleanup')
    return result
  }
}

const stateOf = (row: DeliveryRow): string =>
  `${row.status} ${row.attempts} ${row.availableAtMs} ${row.token} ${row.holdsKey}`

/** A held row may be promoted by another settlement of the same request; that is not this right's doing. */
const changedByOthers = (was: string, row: DeliveryRow): boolean =>
  stateOf(row) !== was && !(was.startsWith('held') && row.status === 'pending')
