/** First in, first out, with a way back to the front; amortised O(1), without the cost of `Array.shift`. */
export class Deque<T> {
  #items: (T | undefined)[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  pushFront(item: T): void {
    if (this.#head > 0) {
      this.#head -= 1
      this.#items[this.#head] = item
    } else {
      this.#items.unshift(item)
    }
  }

  peek(): T | undefined {
    return this.#items[this.#head]
  }

  shift(): T | undefined {
    const item = this.#items[this.#head]
    if (this.#head >= this.#items.length) return undefined
    this.#items[this.#head] = undefined
    this.#head += 1
    // Give the memory of long-gone items back now and then, not at every call.
    if (this.#head > 1024 && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  /** Removes and returns what `leaves` says should go; the others keep their order. */
  remove(leaves: (item: T) => boolean): T[] {
    const gone: T[] = []
    const stay: T[] = []
    for (let i = this.#head; i < this.#items.length; i += 1) {
      const item = this.#items[i] as T
      ;(leaves(item) ? gone : stay).push(item)
    }
    this.#items = stay
    this.#head = 0
    return gone
  }
}
