/**
 * Entities that a library writes, handed to the outbox, which pulls their events before the commit. What was written in
 * a savepoint that is undone was not written, so it is taken back.
 */
import type { Transactions } from '../../core/spi/index.ts'

export type Capture = NonNullable<Transactions<object, unknown>['capture']>
type Written = Parameters<Capture>[0]
type IsOf = Parameters<Written>[1]

interface EventSource {
  pullEvents(): unknown
}

const isSource = (entity: unknown): entity is EventSource =>
  typeof (entity as Partial<EventSource> | null | undefined)?.pullEvents === 'function'

/** `Level` stands for a transaction or a savepoint in it. */
export class Captures<Level extends object> {
  readonly #listeners: Written[] = []
  readonly #undos = new WeakMap<Level, (() => void)[]>()

  readonly listen: Capture = (written) => {
    this.#listeners.push(written)
  }

  take(level: Level, entity: unknown, isOf: IsOf): void {
    if (!isSource(entity)) return
    const undos = this.#undos.get(level) ?? []
    this.#undos.set(level, undos)
    for (const written of this.#listeners) {
      const undo = written(entity, isOf)
      if (undo !== null) undos.push(undo)
    }
  }

  /** The savepoint was released: its fate is now that of the level around it. */
  keep(level: Level, outer: Level | undefined): void {
    const undos = this.#undos.get(level) ?? []
    this.#undos.delete(level)
    if (outer !== undefined) this.#undos.set(outer, [...(this.#undos.get(outer) ?? []), ...undos])
  }

  undo(level: Level): void {
    for (const undo of this.#undos.get(level) ?? []) undo()
    this.#undos.delete(level)
  }
}
