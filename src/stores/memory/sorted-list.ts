/**
 * Items in the order of a comparison, in chunks of bounded size: adding and removing moves at most a chunk,
 * also in the middle of 100,000 items, and walking from a position needs no copy. An item must not change in
 * what the comparison looks at while it is in a list.
 */
const CHUNK = 256

export class SortedList<T> {
  readonly #compare: (a: T, b: T) => number
  #chunks: T[][] = []
  #size = 0

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare
  }

  get size(): number {
    return this.#size
  }

  first(): T | undefined {
    return this.#chunks[0]?.[0]
  }

  add(item: T): void {
    this.#size += 1
    const last = this.#chunks.length - 1
    if (last < 0) {
      this.#chunks.push([item])
      return
    }
    const before = (other: T): boolean => this.#compare(other, item) < 0
    const at = Math.min(this.#chunkAt(before), last)
    const chunk = this.#chunks[at] as T[]
    chunk.splice(positionIn(chunk, before), 0, item)
    if (chunk.length > 2 * CHUNK) this.#chunks.splice(at + 1, 0, chunk.splice(CHUNK))
  }

  /** Removes the item that compares as equal; false when there is none. */
  delete(item: T): boolean {
    const before = (other: T): boolean => this.#compare(other, item) < 0
    const at = this.#chunkAt(before)
    const chunk = this.#chunks[at]
    if (chunk === undefined) return false
    const position = positionIn(chunk, before)
    const found = chunk[position]
    if (found === undefined || this.#compare(found, item) !== 0) return false
    chunk.splice(position, 1)
    if (chunk.length === 0) this.#chunks.splice(at, 1)
    this.#size -= 1
    return true
  }

  /** Walks upwards, from the first item for which `before` is false. The list must not change meanwhile. */
  *upFrom(before: (item: T) => boolean): Generator<T, void, undefined> {
    let at = this.#chunkAt(before)
    const first = this.#chunks[at]
    if (first === undefined) return
    let position = positionIn(first, before)
    for (; at < this.#chunks.length; at++) {
      const chunk = this.#chunks[at] as T[]
      for (; position < chunk.length; position++) yield chunk[position] as T
      position = 0
    }
  }

  /** Walks downwards, from the last item for which `before` is true. The list must not change meanwhile. */
  *downFrom(before: (item: T) => boolean): Generator<T, void, undefined> {
    let at = Math.min(this.#chunkAt(before), this.#chunks.length - 1)
    if (at < 0) return
    let position = positionIn(this.#chunks[at] as T[], before) - 1
    for (; at >= 0; at--) {
      const chunk = this.#chunks[at] as T[]
      for (; position >= 0; position--) yield chunk[position] as T
      position = (this.#chunks[at - 1]?.length ?? 0) - 1
    }
  }

  [Symbol.iterator](): Generator<T, void, undefined> {
    return this.upFrom(() => false)
  }

  /** The first chunk whose last item is not before the position; one past the end when there is none. */
  #chunkAt(before: (item: T) => boolean): number {
    let low = 0
    let high = this.#chunks.length
    while (low < high) {
      const middle = (low + high) >>> 1
      const chunk = this.#chunks[middle] as T[]
      if (before(chunk[chunk.length - 1] as T)) low = middle + 1
      else high = middle
    }
    return low
  }
}

const positionIn = <T>(chunk: readonly T[], before: (item: T) => boolean): number => {
  let low = 0
  let high = chunk.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (before(chunk[middle] as T)) low = middle + 1
    else high = middle
  }
  return low
}
