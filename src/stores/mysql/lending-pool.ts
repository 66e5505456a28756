/** A pool that knows what it has lent. */
import type { MysqlConnection, MysqlPool } from './driver.ts'

export class LendingPool {
  readonly #pool: MysqlPool<MysqlConnection>
  readonly #isOurs: boolean
  #lent = 0
  #onAllBack: (() => void) | null = null

  constructor(pool: MysqlPool<MysqlConnection>, { isOurs }: { readonly isOurs: boolean }) {
    this.#pool = pool
    this.#isOurs = isOurs
  }

  async borrow(): Promise<MysqlConnection> {
    this.#lent += 1
    try {
      return await this.#pool.getConnection()
    } catch (error) {
      this.#oneBack()
      throw error
    }
  }

  /** A connection that is broken is thrown away. */
  giveBack(connection: MysqlConnection, { isBroken }: { readonly isBroken: boolean }): void {
    if (isBroken) connection.destroy()
    else connection.release?.()
    this.#oneBack()
  }

  /**
   * A pool of the application's is left alone. mysql2 says that a pool has ended when every connection has said goodbye,
   * and one that fell silent and is thrown away meanwhile never does: it is over when that one is given back, too.
   */
  async end(): Promise<void> {
    if (!this.#isOurs) return
    const allBack = new Promise<void>((resolve) => {
      this.#onAllBack = resolve
    })
    // One that could not be made in time has nothing to end.
    const ended = this.#pool.end().catch(() => undefined)
    await Promise.race(this.#lent === 0 ? [ended] : [ended, allBack])
  }

  #oneBack(): void {
    this.#lent -= 1
    if (this.#lent === 0) this.#onAllBack?.()
  }
}
