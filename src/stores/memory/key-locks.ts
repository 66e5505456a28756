/**
 * Locks on keys, held until the transaction is over: what `keyOrder: 'locked'` asks of a database. Two
 * transactions that wait for each other are a deadlock; the one that would close the circle is refused.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'

/** Whoever can hold locks: a transaction. */
export interface LockHolder {
  /** Settles when the holder has let go of everything. */
  readonly released: Promise<void>
  waitsFor: LockHolder | null
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
    for (let next: LockHolder | null = other; next !== null; next = next.waitsFor) {
      if (next !== holder) continue
      throw new StoreError(
        ERROR_CODES.storeBusy,
        `two transactions wait for each other's keys, one of them for "${key}"; run this one again`,
        { key, transient: true },
      )
    }
    holder.waitsFor = other
    try {
      await other.released
    } finally {
      holder.waitsFor = null
    }
  }
}
