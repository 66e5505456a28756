/** How transactions and writes of this process wait: for each other at the mutex, for other processes in small pauses. */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { Runtime } from '../../core/spi/index.ts'
import { isBusy, storeErrorOf } from './errors.ts'
import type { Release, WriteMutex } from './write-mutex.ts'

const LONGEST_PAUSE_MS = 40

/** How long one turn of the event loop may go from write to write before everything else gets a turn. */
const TURN_BUDGET_MS = 10

/** What waiting for a lock looks like to `retrying`, for locks that SQLite itself does not see. */
export class LockedError extends Error {
  readonly errcode = 5
}

interface Waiting {
  /** For messages. */
  readonly place: string
  readonly busyTimeoutMs: number
  readonly runtime: Pick<Runtime, 'schedule' | 'monotonicNow' | 'random' | 'yield'>
}

export class Turns {
  readonly #waiting: Waiting
  /** The turn of the event loop in which writes were granted; null as soon as it is over. */
  #turn: { readonly startedAt: number; readonly over: Promise<void> } | null = null

  constructor(waiting: Waiting) {
    this.#waiting = waiting
  }

  async acquire(mutex: WriteMutex): Promise<Release> {
    const { place, busyTimeoutMs, runtime } = this.#waiting
    const release = await mutex.acquire(busyTimeoutMs, runtime)
    if (release !== null) {
      await this.#leaveRoom()
      return release
    }
    throw new StoreError(
      ERROR_CODES.storeBusy,
      `${place} was busy with another transaction of this process for ${busyTimeoutMs} ms. ` +
        'Keep transactions short, and do not wait inside one for a second one.',
      { transient: true },
    )
  }

  /** Tries again while somebody has the lock, with growing pauses that leave the event loop free. */
  async retrying<T>(attempt: () => T): Promise<T> {
    const { place, busyTimeoutMs, runtime } = this.#waiting
    const startedAt = runtime.monotonicNow()
    for (let pauseMs = 1; ; pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2)) {
      try {
        return attempt()
      } catch (error) {
        const left = busyTimeoutMs - (runtime.monotonicNow() - startedAt)
        if (!isBusy(error) || left <= 0) throw storeErrorOf(error, place)
        const jittered = pauseMs * (0.5 + runtime.random())
        await new Promise<void>((wake) => runtime.schedule(Math.min(left, jittered), wake))
      }
    }
  }

  /**
   * A synchronous driver finishes everything in microtasks, so a loop of transactions would keep timers, and with
   * them the renewal of lanes, from ever running.
   */
  #leaveRoom(): Promise<void> | undefined {
    const { runtime } = this.#waiting
    const now = runtime.monotonicNow()
    if (this.#turn !== null) return now - this.#turn.startedAt > TURN_BUDGET_MS ? this.#turn.over : undefined
    const over = runtime.yield().then(() => {
      this.#turn = null
    })
    this.#turn = { startedAt: now, over }
    return undefined
  }
}
