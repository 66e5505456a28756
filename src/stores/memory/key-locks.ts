/**
 * Locks on keys, held until the transaction is over: what `keyOrder: 'locked'` asks of a database. Two
 * transactions that wait for each other are a deadlock; the one that would close the circle is refused.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'

/** Whoever can hold locks: a transaction. */
export interface LockHolder {
  /** Settles when the holder has let go of everything. */
  readonly released: Promise<void>
  /** It ended, and holds nothing any more. */
  readonly over: boolean
  /** More than one when several of its inserts wait at once. */
  readonly waitsFor: Set<LockHolder>
}

export class KeyLocks {
  readonly #holders = new Map<string, LockHolder>()

  /** One after the other and in the same order everywhere, so that two inserts alone never wait for each other. */
  async acquire(holder: LockHolder, keys: readonly string[]): Promise<void> {
    for (const key of [...new Set(keys)].sort()) {
      for (;;) {
        const other = this.#holders.get(key)
        if (other === undefined || other === holder) break
        await this.#wait(holder, other, key)
      }
      // It ended while it waited: nobody would release what it takes now.
      if (holder.over) return
      this.#holders.set(key, holder)
    }
  }

  /** Without waiting, for synchronous inserts. */
  acquireNow(holder: LockHolder, keys: readonly string[]): void {
    for (const key of keys) {
      const other = this.#holders.get(key)
      if (other !== undefined && other !== holder) {
        throw new StoreError(
          ERROR_CODES.storeBusy,
          `another open transaction writes events of the key "${key}", and publishSync cannot wait for it`,
          { key, transient: true },
        )
      }
    }
    for (const key of keys) this.#holders.set(key, holder)
  }

  release(holder: LockHolder): void {
    for (const [key, other] of this.#holders) if (other === holder) this.#holders.delete(key)
  }

  async #wait(holder: LockHolder, other: LockHolder, key: string): Promise<void> {
    if (waitsFor(other, holder)) {
      throw new StoreError(
        ERROR_CODES.storeBusy,
        `two transactions wait for each other's keys, one of them for "${key}"; run this one again`,
        { key, transient: true },
      )
    }
    holder.waitsFor.add(other)
    await other.released
    holder.waitsFor.delete(other)
  }
}

/** Circles are refused before they close, so this ends. */
const waitsFor = (holder: LockHolder, wanted: LockHolder): boolean =>
  holder === wanted || [...holder.waitsFor].some((next) => waitsFor(next, wanted))
