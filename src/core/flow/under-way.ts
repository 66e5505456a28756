/** Transactions that are under way: whoever closes what they run on waits for them first. */
import { ERROR_CODES, OutboxError } from '../errors.ts'

export class UnderWay {
  #count = 0
  #isClosing = false
  #onNone: (() => void) | null = null

  /** One begins; the answer is to be called when it has ended. */
  begin(): () => void {
    if (this.#isClosing) {
      throw new OutboxError(ERROR_CODES.closed, 'the outbox is being closed; no transaction begins any more')
    }
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

  /** None begins any more. Resolves when the last one has ended. */
  close(): Promise<void> {
    this.#isClosing = true
    if (this.#count === 0) return Promise.resolve()
    return new Promise((resolve) => {
      this.#onNone = resolve
    })
  }
}
