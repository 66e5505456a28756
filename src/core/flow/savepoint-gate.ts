/**
 * Part of stage 2: keeps what we send apart from savepoints that begin or end. An insert may take several statements, and
 * which side of a savepoint each of them lands on nobody can tell while the library is sending it: one that is undone
 * would take half of an event along, or what is accounted to it would stay.
 *
 * Who waits stands in line, and stays there until it has sent: whoever comes meanwhile is behind, also when the gate is
 * open by then. Otherwise events of one key would change places.
 */
import { ERROR_CODES, TransactionError } from '../errors.ts'
import type { Runtime } from '../spi/index.ts'
import type { Frame } from './frame.ts'

/** A savepoint that takes longer waits for something that waits for it. */
const LONGEST_WAIT_MS = 30_000

/** One who stands in line. */
export interface Waiter {
  /** Called when it may be its turn; it looks again then. */
  wake: () => void
}

export class SavepointGate {
  readonly #runtime: Runtime
  readonly #line: Waiter[] = []
  #frame: Frame | null = null

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Of the savepoint that begins or ends at this moment. */
  get frame(): Frame | null {
    return this.#frame
  }

  /** Whether one has to stand in line. */
  get isShut(): boolean {
    return this.#frame !== null || this.#line.length > 0
  }

  shut(frame: Frame): void {
    this.#frame = frame
  }

  open(frame: Frame): void {
    if (this.#frame !== frame) return
    this.#frame = null
    this.#line[0]?.wake()
  }

  join(): Waiter {
    const waiter = { wake: () => undefined }
    this.#line.push(waiter)
    return waiter
  }

  mayGo(waiter: Waiter): boolean {
    return this.#frame === null && this.#line[0] === waiter
  }

  /** Resolves when it is worth looking again: the gate may be shut once more by then. */
  called(waiter: Waiter): Promise<void> {
    return new Promise((resolve, reject) => {
      const cancel = this.#runtime.schedule(LONGEST_WAIT_MS, () => reject(stuckError()))
      waiter.wake = () => {
        cancel()
        resolve()
      }
    })
  }

  /** It has sent, or will not: the next may go. */
  leave(waiter: Waiter): void {
    const index = this.#line.indexOf(waiter)
    this.#line.splice(index, 1)
    if (index === 0 && this.#frame === null) this.#line[0]?.wake()
  }
}

const stuckError = (): TransactionError =>
  new TransactionError(
    ERROR_CODES.conflict,
    `a publish waited ${LONGEST_WAIT_MS / 1_000} s for a nested transaction to begin or end. Most likely a hook of the ` +
      'library waits for the publish, and that was called elsewhere (by a queue, a batch): publish in the hook itself.',
  )
