/**
 * Knows which reads of a destination are under way. A read whose snapshot is older than a settle shows the
 * row as still pending; so a delivery stays in flight here until every read that was under way when its
 * settle was confirmed has been dealt with. Without this, a duplicate needs no fault at all.
 */
export class ReadGuard {
  readonly #active = new Set<number>()
  #next = 0
  #barriers: { readonly waitsFor: Set<number>; readonly from: number; readonly waiting: (() => void)[] }[] =
    []

  /** The number of the next read to begin: those with a lower one began before this moment. */
  get next(): number {
    return this.#next
  }

  /** Marks a read as under way while `read` runs; it is told its number. */
  async during<T>(read: (id: number) => Promise<T>): Promise<T> {
    const id = this.#next
    this.#next += 1
    this.#active.add(id)
    try {
      return await read(id)
    } finally {
      this.#active.delete(id)
      this.#passed(id)
    }
  }

  /** Runs `fn` when all reads that are under way now have ended; at once when there are none. */
  after(fn: () => void): void {
    if (this.#active.size === 0) {
      fn()
      return
    }
    const last = this.#barriers.at(-1)
    // No read began since the last barrier was put up: both wait for no more than the same reads.
    if (last !== undefined && last.from === this.#next) last.waiting.push(fn)
    else this.#barriers.push({ waitsFor: new Set(this.#active), from: this.#next, waiting: [fn] })
  }

  #passed(id: number): void {
    if (this.#barriers.length === 0) return
    for (const barrier of this.#barriers) barrier.waitsFor.delete(id)
    const open = this.#barriers.filter(({ waitsFor }) => waitsFor.size === 0)
    if (open.length === 0) return
    this.#barriers = this.#barriers.filter(({ waitsFor }) => waitsFor.size > 0)
    for (const { waiting } of open) for (const fn of waiting) fn()
  }
}
