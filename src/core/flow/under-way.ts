/** Transactions that are under way: whoever closes what they run on waits for them first. */
import { ERROR_CODES, OutboxError } from '../errors.ts'
import { type Runtime, within } from '../spi/index.ts'

/** They have this at least, also where deliveries that were running took all of `drainMs`. */
const LAST_MS = 1_000

export const closedError = (): OutboxError =>
  new OutboxError(ERROR_CODES.closed, 'this outbox is closed; create a new one to go on')

export class UnderWay {
  #count = 0
  #isClosing = false
  #onNone: (() => void) | null = null

  /** One begins; the answer is to be called when it has ended. */
  begin(): () => void {
    if (this.#isClosing) throw closedError()
    this.#count += 1
    return () => {
      this.#count -= 1
      if (this.#count === 0) this.#onNone?.()
    }
  }

  async during<T>(work: () => Promise<T>): Promise<T> {
    const end = this.begin()
    try {
      return await work()
    } finally {
      end()
    }
  }

  /** None begins any more. Whether the last one has ended `drainMs` after `since`. */
  async close(runtime: Runtime, since: number, drainMs: number): Promise<boolean> {
    this.#isClosing = true
    if (this.#count === 0) return true
    const none = new Promise<void>((resolve) => {
      this.#onNone = resolve
    })
    const leftMs = since + drainMs - runtime.monotonicNow()
    return await within(runtime, Math.max(leftMs, Math.min(drainMs, LAST_MS)), none)
  }
}
