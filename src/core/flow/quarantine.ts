/**
 * Suspects that may end the process run one at a time in the whole process. That one is tried is written down
 * when it is its turn and not before, and the turn ends when its outcome is written: so an event that ends the
 * process takes nobody with it, neither what waits for its turn nor what had one.
 */
import type { AttemptFailure, Delivery } from '../model/delivery.ts'
import type { Logger, SuspectedDelivery } from '../spi/index.ts'

export class Quarantine {
  #last: Promise<void> = Promise.resolve()

  /** One after another; a turn that fails ends like any other. */
  run(turn: () => Promise<void>): Promise<void> {
    const result = this.#last.then(turn)
    this.#last = result.catch(() => undefined)
    return result
  }
}

/** Outcomes that are not written yet. */
export class Outstanding {
  #count = 0
  #waiters: (() => void)[] = []

  begin(): void {
    this.#count += 1
  }

  end(): void {
    this.#count -= 1
    if (this.#count === 0) for (const wake of this.#waiters.splice(0)) wake()
  }

  /** Resolves when everything is written. */
  async none(): Promise<void> {
    while (this.#count > 0) await new Promise<void>((resolve) => this.#waiters.push(resolve))
  }
}

/** What a quarantined delivery may do: be sent, be buried, or nothing because it is not ours any more. */
export type Turn =
  | { readonly kind: 'send'; readonly delivery: Delivery }
  | { readonly kind: 'bury'; readonly delivery: Delivery; readonly failure: AttemptFailure }
  | { readonly kind: 'gone' }

/** The attempt is written down before it is made; beyond the limit it is not made. */
export const spendAttempt = async (
  delivery: Delivery,
  suspect: (delivery: Delivery) => Promise<SuspectedDelivery | null>,
  maxAttempts: number,
  logger: Logger,
): Promise<Turn> => {
  if (delivery.attemptSpent) return { kind: 'send', delivery }
  let suspected: SuspectedDelivery | null = null
  try {
    suspected = await suspect(delivery)
  } catch (error) {
    const { destination } = delivery
    logger.log('warn', 'a suspect could not be counted; it is read again', {
      destination,
      error: String(error),
    })
  }
  if (suspected === null) return { kind: 'gone' }
  const { attempts, suspicions } = suspected
  const spent = { ...delivery, attempts, attemptSpent: true, suspected: true }
  if (attempts <= maxAttempts) return { kind: 'send', delivery: spent }
  const message = `${suspicions} processes ended while this delivery was under way; it is not sent again`
  const failure = { attempt: attempts, durationMs: 0, code: null, message, stack: null }
  return { kind: 'bury', delivery: spent, failure }
}
