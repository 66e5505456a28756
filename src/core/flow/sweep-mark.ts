/**
 * Where a sweep may begin. Behind the mark rows hardly ever appear by a late commit any more: the transactions that
 * were open when the cursor stood there have ended, but for those that were newer than all that had ended by then.
 * Rows can also become pending there in other ways (a claim that runs out, an operator's act), so a full sweep comes
 * now and then, as often as its cost allows.
 */
import type { ReadResult } from '../spi/index.ts'

/** A number can be drawn a moment before its transaction gets its own. */
const MARGIN_MS = 1_000
/** Full sweeps take at most this share of the time. */
const FULL_SHARE = 0.05

export class SweepMark {
  #mark = 0n
  #note: { readonly cursor: bigint; readonly next: bigint; readonly at: number } | null = null
  #fullAgainAt = Number.NEGATIVE_INFINITY

  /** The sweep that begins now leaves out what lies at or behind this. */
  from(now: number): bigint {
    return now >= this.#fullAgainAt ? 0n : this.#mark
  }

  /** From this time on a sweep is a full one; without a mark every sweep is. */
  get fullAgainAt(): number {
    return this.#mark === 0n ? Number.NEGATIVE_INFINITY : this.#fullAgainAt
  }

  /** The cursor goes back: rows behind it are looked for anew. */
  reset(): void {
    this.#mark = 0n
    this.#note = null
    this.#fullAgainAt = Number.NEGATIVE_INFINITY
  }

  /** The next one is at least `intervalMs` away. */
  fullSweepEnded(now: number, tookMs: number, intervalMs: number): void {
    this.#fullAgainAt = now + Math.max(intervalMs, tookMs / FULL_SHARE)
  }

  /** After a read with the cursor here. An unrouted row keeps its number when it is expanded, so it stops the mark. */
  note(cursor: bigint, { snapshot, unrouted }: ReadResult, now: number): void {
    if (snapshot === null || unrouted) {
      this.#note = null
      return
    }
    const note = this.#note
    if (note !== null && snapshot.oldest >= note.next && now - note.at >= MARGIN_MS) {
      this.#mark = note.cursor
      this.#note = null
    }
    this.#note ??= { cursor, next: snapshot.next, at: now }
  }
}
