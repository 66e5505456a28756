/**
 * Part of stage 2: keeps what we send apart from savepoints that begin or end. An insert may take several statements, and
 * which side of a savepoint each of them lands on nobody can tell while the library is sending it: one that is undone
 * would take half of an event along, or what is accounted to it would stay.
 *
 * Who waits stands in line, and stays there until it has sent: whoever comes meanwhile is behind, also when the gate is
 * open by then. Otherwise events of one key would change places.
 */
import { ERROR_CODES, TransactionError } from '../errors.ts'
import { type Runtime, within } from '../spi/index.ts'
import type { Frame, PendingWork } from './frame.ts'

/** Whoever waits longer, for a savepoint or before one, waits for something that waits for it. */
const LONGEST_WAIT_MS = 30_000

const SAVEPOINT_STUCK =
  `a publish waited ${LONGEST_WAIT_MS / 1_000} s for a nested transaction to begin or end. Most likely a hook of the ` +
  'library waits for the publish, and that was called elsewhere (by a queue, a batch): publish in the hook itself.'

const PUBLISH_STUCK =
  `a nested transaction waited ${LONGEST_WAIT_MS / 1_000} s for a publish before it, and did not begin. Most likely the ` +
  'schema of the publish, or pullEvents() of its aggregate, waits for the nested transaction: await that first, then publish.'

const stuckError = (message: string): TransactionError => new TransactionError(ERROR_CODES.conflict, message)

export const allDone = async (work: readonly PendingWork[]): Promise<void> => {
  await Promise.all(work.map(({ done }) => done))
}

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
      const cancel = this.#runtime.schedule(LONGEST_WAIT_MS, () => reject(stuckError(SAVEPOINT_STUCK)))
      waiter.wake = () => {
        cancel()
        resolve()
      }
    })
  }

  /**
   * Before a savepoint in `below`: until this work is over, or `below` is. Not for ever, unless something is being sent:
   * the database waits for nobody here.
   */
  async finished(work: readonly PendingWork[], below: Frame, isSending: () => boolean): Promise<void> {
    const done = allDone(work)
    if (work.length === 0) return await done
    const either = Promise.race([done, below.over])
    while (!(await within(this.#runtime, LONGEST_WAIT_MS, either)))
      if (!isSending()) throw stuckError(PUBLISH_STUCK)
  }

  /** It has sent, or will not: the next may go. */
  leave(waiter: Waiter): void {
    const index = this.#line.indexOf(waiter)
    this.#line.splice(index, 1)
    if (index === 0 && this.#frame === null) this.#line[0]?.wake()
  }
}
