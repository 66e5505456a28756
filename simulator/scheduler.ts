/**
 * Virtual time for all processes together. One thing happens at a time: the earliest entry runs, everything that
 * became ready because of it runs to its end, then comes the next. Entries of the same moment run in an order
 * that the seed decides, because real machines promise none.
 */
import type { Random } from './random.ts'

/** A process as the scheduler sees it: what belongs to a dead one never happens, a paused one is late. */
export interface Owner {
  readonly alive: boolean
  readonly pausedUntil: number
}

interface Entry {
  at: number
  tie: number
  readonly run: () => void
  readonly owner: Owner | null
  cancelled: boolean
}

// Taken before a run replaces the global by a trap.
const realSetImmediate = setImmediate

export class Scheduler {
  now = 0
  steps = 0
  readonly #random: Random
  readonly #heap: Entry[] = []

  constructor(random: Random) {
    this.#random = random
  }

  /** Runs `run` after `delayMs`, unless its owner is gone by then. */
  after(delayMs: number, run: () => void, owner: Owner | null = null): () => void {
    const entry: Entry = {
      at: this.now + Math.max(0, delayMs),
      tie: this.#random.next(),
      run,
      owner,
      cancelled: false,
    }
    this.#push(entry)
    return () => {
      entry.cancelled = true
    }
  }

  /** Resolves after `delayMs`; never, if the owner ends first. */
  sleep(delayMs: number, owner: Owner | null = null): Promise<void> {
    return new Promise((resolve) => {
      this.after(delayMs, resolve, owner)
    })
  }

  /** Runs until the time is over or `stop` says so. */
  async runUntil(timeMs: number, stop: () => boolean): Promise<void> {
    for (;;) {
      const entry = this.#heap[0]
      if (entry === undefined || entry.at > timeMs || stop()) break
      this.#pop()
      if (entry.cancelled || entry.owner?.alive === false) continue
      this.now = entry.at
      if (entry.owner !== null && entry.owner.pausedUntil > this.now) {
        // It keeps its place among what the process finds when it wakes up: timers fire in their order.
        entry.tie = Math.min(0.999_999, entry.at / 1e9)
        entry.at = entry.owner.pausedUntil
        this.#push(entry)
        continue
      }
      this.steps += 1
      entry.run()
      await drained()
    }
    if (!stop()) this.now = Math.max(this.now, timeMs)
  }

  #push(entry: Entry): void {
    const heap = this.#heap
    let at = heap.length
    heap.push(entry)
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(entry, heap[parent] as Entry)) break
      heap[at] = heap[parent] as Entry
      at = parent
    }
    heap[at] = entry
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as Entry
    if (heap.length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Entry, heap[child] as Entry)) child += 1
      if (!isBefore(heap[child] as Entry, last)) break
      heap[at] = heap[child] as Entry
      at = child
    }
    heap[at] = last
  }
}

const isBefore = (a: Entry, b: Entry): boolean => a.at < b.at || (a.at === b.at && a.tie < b.tie)

/** All promises that can go on have gone on. */
const drained = (): Promise<void> => new Promise((resolve) => realSetImmediate(resolve))
