/**
 * Part of stage 2: keeps what we send apart from savepoints that begin or end. An insert may take several statements, and
 * which side of a savepoint each of them lands on nobody can tell while the library is sending it: one that is undone
 * would take half of an event along, or what is accounted to it would stay.
 */
import type { Frame } from './frame.ts'

interface Shut {
  readonly frame: Frame
  readonly opening: Promise<void>
  open(): void
}

export class SavepointGate {
  #shut: Shut | null = null

  /** Of the savepoint that begins or ends at this moment. */
  get frame(): Frame | null {
    return this.#shut?.frame ?? null
  }

  get opening(): Promise<void> | null {
    return this.#shut?.opening ?? null
  }

  shut(frame: Frame): void {
    let open = this.#shut?.open
    const opening = this.#shut?.opening ?? new Promise<void>((resolve) => (open = resolve))
    this.#shut = { frame, opening, open: open as () => void }
  }

  /** Those who wait go on in the order in which they came. */
  open(frame: Frame): void {
    if (this.#shut?.frame !== frame) return
    this.#shut.open()
    this.#shut = null
  }
}
