/**
 * The rows of one key in one destination, and who of them keeps the others waiting.
 *
 * A row holds its key when it is a retry, held, promoted (pending after it was held) or a dead head that
 * blocks. Among those, retries and dead heads are the blockers. A held row waits until no holder before it is
 * left that is not held itself; then it is promoted. So a held row always has a holder that is not held, and
 * whoever ends as the last one promotes: nothing can be held for ever. Scheduled rows have no place here yet.
 */
import { bySeq, type DeliveryRow } from './rows.ts'
import { SortedList } from './sorted-list.ts'

export class KeyQueue {
  readonly rows = new SortedList<DeliveryRow>(bySeq)
  /** Holders that are not pending: blockers and held rows. */
  readonly waiting = new SortedList<DeliveryRow>(bySeq)
  pendingHolders = 0
  blockers = 0

  add(row: DeliveryRow): void {
    this.rows.add(row)
    this.#count(row, 1)
    if (row.holdsKey && row.status !== 'pending') this.waiting.add(row)
  }

  remove(row: DeliveryRow): void {
    this.rows.delete(row)
    this.#count(row, -1)
    if (row.holdsKey && row.status !== 'pending') this.waiting.delete(row)
  }

  #count(row: DeliveryRow, by: 1 | -1): void {
    if (!row.holdsKey) return
    if (row.status === 'pending') this.pendingHolders += by
    else if (row.status !== 'held') this.blockers += by
  }

  /** The earliest retry or dead head that blocks. */
  firstBlocker(): DeliveryRow | undefined {
    if (this.blockers === 0) return undefined
    for (const row of this.waiting) if (row.status !== 'held') return row
    return undefined
  }

  /**
   * Whether this row has to wait for a holder before it that is not pending. Nobody waits for a row behind it, so
   * nobody waits for each other.
   */
  isHeldBack(row: DeliveryRow): boolean {
    const first = this.waiting.first()
    return first !== undefined && first.seq < row.seq
  }

  /** Held rows whose turn it is, lowest first. */
  promotable(limit: number): DeliveryRow[] {
    const holder = this.#firstFreeHolder()
    const next: DeliveryRow[] = []
    for (const row of this.waiting) {
      if (next.length >= limit || (holder !== undefined && row.seq > holder.seq)) break
      if (row.status === 'held') next.push(row)
    }
    return next
  }

  /** The earliest holder that is not held. */
  #firstFreeHolder(): DeliveryRow | undefined {
    if (this.pendingHolders === 0 && this.blockers === 0) return undefined
    for (const row of this.rows) if (row.holdsKey && row.status !== 'held') return row
    return undefined
  }

  /** Ids of the rows before `seq`, lowest first. */
  idsBefore(seq: bigint, limit: number): string[] {
    const ids: string[] = []
    for (const row of this.rows) {
      if (row.seq >= seq || ids.length >= limit) break
      ids.push(row.id)
    }
    return ids
  }
}
