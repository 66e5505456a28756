/**
 * Entities that a library writes, handed to the outbox, which pulls their events before the commit. What was written in
 * a savepoint that is undone was not written, so it is taken back.
 */
import type { Transactions } from '../../core/spi/index.ts'

export type Capture = NonNullable<Transactions<object, unknown>['capture']>
export type Written = Parameters<Capture>[0]
type IsOf = Parameters<Written>[1]
type Undo = () => void

interface EventSource {
  pullEvents(): unknown
}

const isSource = (entity: unknown): entity is EventSource =>
  typeof (entity as Partial<EventSource> | null | undefined)?.pullEvents === 'function'

/** What became of an entity in one transaction. */
interface Fate {
  /** Where it was written, as far as that stands. */
  readonly levels: Set<Taken>
  /** For what was handed over although nothing of it was written. */
  presence: Undo[]
  /** Written, and nothing of that stands. */
  isUndone: boolean
}

/** What was handed over in a transaction or in a savepoint of it. */
interface Taken {
  undos: Undo[]
  readonly written: Set<Fate>
}

interface Heard {
  readonly listeners: readonly Written[]
  readonly fates: WeakMap<EventSource, Fate>
}

/** `Level` stands for a transaction or a savepoint in it. */
export class Captures<Level extends object> {
  readonly #transactions = new WeakMap<object, Heard>()
  readonly #levels = new WeakMap<Level, Taken>()

  /**
   * A transaction begins, and these are told what is written in it. They are those of the client that opened it: a list of
   * all clients would only grow.
   */
  hear(transaction: object, listeners: readonly Written[]): void {
    this.#transactions.set(transaction, { listeners, fates: new WeakMap() })
  }

  /** `isWritten` is false for one that is only there. It is not asked either once all that was written of it is undone. */
  take(transaction: object, level: Level, entity: unknown, isOf: IsOf, isWritten = true): void {
    const heard = this.#transactions.get(transaction)
    if (heard === undefined || !isSource(entity)) return
    const here = this.#at(level)
    const fate = heard.fates.get(entity) ?? { levels: new Set(), presence: [], isUndone: false }
    heard.fates.set(entity, fate)
    if (isWritten) {
      fate.isUndone = false
      fate.levels.add(here)
      here.written.add(fate)
    }
    if (fate.isUndone) return
    for (const written of heard.listeners) {
      const undo = written(entity, isOf)
      if (undo === null) continue
      here.undos.push(undo)
      if (!isWritten) fate.presence.push(undo)
    }
  }

  /** The savepoint was released: its fate is now that of the level around it. */
  keep(level: Level, outer: Level | undefined): void {
    const { undos, written } = this.#end(level)
    if (outer === undefined) return
    const around = this.#at(outer)
    around.undos = around.undos.concat(undos)
    for (const fate of written) {
      fate.levels.add(around)
      around.written.add(fate)
    }
  }

  undo(level: Level): void {
    const { undos, written } = this.#end(level)
    for (const undo of undos) undo()
    for (const fate of written) {
      if (fate.levels.size > 0) continue
      fate.isUndone = true
      for (const undo of fate.presence) undo()
      fate.presence = []
    }
  }

  #at(level: Level): Taken {
    const taken = this.#levels.get(level) ?? { undos: [], written: new Set() }
    this.#levels.set(level, taken)
    return taken
  }

  #end(level: Level): Taken {
    const taken = this.#at(level)
    this.#levels.delete(level)
    for (const fate of taken.written) fate.levels.delete(taken)
    return taken
  }
}
