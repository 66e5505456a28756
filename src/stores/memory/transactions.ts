/**
 * Transactions of the memory database. What a transaction writes is a log that is applied at commit, in one
 * step; a savepoint is a position in that log. So nothing is visible early, several may be open at once, and
 * rolling back to a savepoint undoes exactly what came after it, through whichever handle it was written.
 */
import { ERROR_CODES, StoreError, TransactionError } from '../../core/errors.ts'
import type { OpenTransaction, Transactions } from '../../core/spi/index.ts'
import type { MemoryDatabase, OpenDraw } from './database.ts'
import type { LockHolder } from './key-locks.ts'
import type { DeliveryRow, EventRow } from './rows.ts'

export type LogEntry =
  | { readonly kind: 'event'; readonly event: EventRow; readonly dedupKey: string | null }
  | { readonly kind: 'delivery'; readonly row: DeliveryRow }
  | { readonly kind: 'data'; readonly key: string; readonly value: unknown }
  | { readonly kind: 'observer'; committed(): void; rolledBack(): void }

export const conflict = (what: 'event' | 'delivery', id: string): StoreError =>
  new StoreError(ERROR_CODES.conflict, `the ${what} ${id} is stored already`)

/** The state that all handles of one transaction share. */
export class TransactionLog implements OpenDraw, LockHolder {
  readonly database: MemoryDatabase
  readonly entries: LogEntry[] = []
  /** Idempotency keys and business data of this transaction, derived from the log. */
  readonly dedup = new Map<string, string>()
  readonly data = new Map<string, unknown>()
  readonly eventIds = new Set<string>()
  readonly deliveryIds = new Set<string>()
  readonly number: bigint
  readonly released: Promise<void>
  readonly waitsFor = new Set<LockHolder>()
  firstSeq: bigint | null = null
  over = false
  #release: () => void = () => undefined

  constructor(database: MemoryDatabase) {
    this.database = database
    this.number = database.beginTransaction()
    this.released = new Promise((resolve) => {
      this.#release = resolve
    })
    database.open.add(this)
  }

  drawSeq(): bigint {
    const seq = this.database.drawSeq()
    this.firstSeq ??= seq
    return seq
  }

  append(entry: LogEntry): void {
    this.entries.push(entry)
    this.#derive(entry)
  }

  rollbackTo(position: number): void {
    const undone = this.entries.splice(position)
    this.dedup.clear()
    this.data.clear()
    this.eventIds.clear()
    this.deliveryIds.clear()
    for (const entry of this.entries) this.#derive(entry)
    for (const entry of undone) if (entry.kind === 'observer') entry.rolledBack()
  }

  rollback(): void {
    this.#end()
    this.#unlock()
    this.rollbackTo(0)
  }

  /** Nobody waits for another's id here, so who commits second is refused, and everything of it undone. */
  commit(): void {
    const taken = this.#taken()
    if (taken !== null) {
      this.rollback()
      throw taken
    }
    this.#end()
    const dropped = new Set<string>()
    for (const entry of this.entries) this.#apply(entry, dropped)
    this.#unlock()
    for (const entry of this.entries) if (entry.kind === 'observer') entry.committed()
  }

  #end(): void {
    this.over = true
    this.database.open.delete(this)
  }

  /** After the rows are there, or never will be: the next writer of a key comes behind them. */
  #unlock(): void {
    this.database.keyLocks.release(this)
    this.#release()
  }

  #derive(entry: LogEntry): void {
    if (entry.kind === 'data') this.data.set(entry.key, entry.value)
    if (entry.kind === 'delivery') this.deliveryIds.add(entry.row.id)
    if (entry.kind !== 'event') return
    this.eventIds.add(entry.event.record.id)
    if (entry.dedupKey !== null) this.dedup.set(entry.dedupKey, entry.event.record.id)
  }

  /** An id that another transaction has committed since it was written here. */
  #taken(): StoreError | null {
    const { events, deliveries } = this.database
    const dropped = new Set<string>()
    for (const entry of this.entries) {
      if (entry.kind === 'event') {
        const { id } = entry.event.record
        if (this.#isDuplicate(entry)) dropped.add(id)
        else if (events.has(id)) return conflict('event', id)
      } else if (entry.kind === 'delivery') {
        const { id, eventId } = entry.row
        if (deliveries.has(id) && !dropped.has(eventId)) return conflict('delivery', id)
      }
    }
    return null
  }

  /** Another transaction with the same idempotency key committed first: a duplicate never aborts, it vanishes. */
  #isDuplicate({ dedupKey }: { readonly dedupKey: string | null }): boolean {
    return dedupKey !== null && this.database.dedup.has(dedupKey)
  }

  #apply(entry: LogEntry, dropped: Set<string>): void {
    const { database } = this
    if (entry.kind === 'data') database.data.set(entry.key, entry.value)
    else if (entry.kind === 'delivery') {
      if (!dropped.has(entry.row.eventId)) database.insertRow(entry.row)
    } else if (entry.kind === 'event') {
      const { id } = entry.event.record
      if (this.#isDuplicate(entry)) {
        dropped.add(id)
        return
      }
      if (entry.dedupKey !== null) database.dedup.set(entry.dedupKey, { eventId: id, atMs: database.now() })
      database.insertEvent(entry.event)
    }
  }
}

/** The handle of a transaction or of a savepoint in it. `set` and `get` stand for the application's own tables. */
export class MemoryTransaction {
  /** @internal */
  readonly log: TransactionLog
  readonly #parent: MemoryTransaction | null
  #ended = false

  /** @internal */
  constructor(log: TransactionLog, parent: MemoryTransaction | null) {
    this.log = log
    this.#parent = parent
  }

  get isOpen(): boolean {
    return !this.#ended && (this.#parent === null ? !this.log.over : this.#parent.isOpen)
  }

  /** Writes business data that becomes visible, or vanishes, together with the events of this transaction. */
  set(key: string, value: unknown): void {
    assertOpen(this)
    this.log.append({ kind: 'data', key, value })
  }

  /** What this transaction wrote, else what is committed. */
  get(key: string): unknown {
    assertOpen(this)
    return this.log.data.has(key) ? this.log.data.get(key) : this.log.database.get(key)
  }

  /** @internal */
  end(): void {
    this.#ended = true
  }
}

export const assertOpen = (tx: MemoryTransaction): TransactionLog => {
  if (!(tx instanceof MemoryTransaction)) {
    throw new TransactionError(
      ERROR_CODES.noTransaction,
      'this is not a transaction of the memory store; use the handle that transaction() gives to its function',
    )
  }
  if (!tx.isOpen) {
    throw new TransactionError(
      ERROR_CODES.transactionEnded,
      'this transaction is over; publish before its function returns, and wait for publish',
    )
  }
  return tx.log
}

/** @internal `begin` opens a log; the store that owns it rolls back what is still open when it closes. */
export const memoryTransactions = (
  begin: () => TransactionLog,
): Transactions<MemoryTransaction, MemoryTransaction> & {
  begin(): Promise<OpenTransaction<MemoryTransaction>>
} => {
  const open = (): OpenTransaction<MemoryTransaction> => {
    const log = begin()
    const tx = new MemoryTransaction(log, null)
    return {
      tx,
      commit: async () => assertOpen(tx).commit(),
      // Rolling back what is over already is what cleanup code does; it changes nothing.
      rollback: async () => {
        if (!log.over) log.rollback()
      },
    }
  }
  return {
    library: 'memory',
    begin: async () => open(),
    run: async (fn) => {
      const { tx, commit, rollback } = open()
      try {
        const result = await fn(tx)
        await commit()
        return result
      } catch (error) {
        await rollback()
        throw error
      }
    },
    nested: async (tx, fn) => {
      const log = assertOpen(tx)
      const savepoint = log.entries.length
      const inner = new MemoryTransaction(log, tx)
      try {
        return await fn(inner)
      } catch (error) {
        if (inner.isOpen) log.rollbackTo(savepoint)
        throw error
      } finally {
        inner.end()
      }
    },
    executor: (tx) => {
      assertOpen(tx)
      return tx
    },
    inTransaction: (tx) => tx instanceof MemoryTransaction && tx.isOpen,
    observe: (tx, ended) => {
      assertOpen(tx).append({
        kind: 'observer',
        committed: () => ended.committed(),
        rolledBack: () => ended.rolledBack(),
      })
      return true
    },
  }
}
