/** Chance that can be repeated: everything a run decides comes from one seed through streams made here. */

export class Random {
  #a: number
  #b: number
  #c: number
  #d: number

  /** `salt` names the stream, so that a new decision in one of them does not move all others. */
  constructor(seed: number, salt = '') {
    let hash = seed ^ 0x9e3779b9
    for (let i = 0; i < salt.length; i += 1) hash = Math.imul(hash ^ salt.charCodeAt(i), 0x01000193)
    this.#a = hash | 0
    this.#b = Math.imul(seed + 1, 0x85ebca6b) | 0
    this.#c = Math.imul(hash ^ (hash >>> 15), 0xc2b2ae35) | 0
    this.#d = 1
    for (let i = 0; i < 15; i += 1) this.#word()
  }

  /** sfc32: small, fast, and good enough to choose faults by. */
  #word(): number {
    const t = (((this.#a + this.#b) | 0) + this.#d) | 0
    this.#d = (this.#d + 1) | 0
    this.#a = this.#b ^ (this.#b >>> 9)
    this.#b = (this.#c + (this.#c << 3)) | 0
    this.#c = (this.#c << 21) | (this.#c >>> 11)
    this.#c = (this.#c + t) | 0
    return t >>> 0
  }

  /** Uniform in [0, 1). */
  next(): number {
    return this.#word() / 4_294_967_296
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.next()
  }

  /** A whole number, both ends included. */
  whole(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1))
  }

  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability
  }

  pick<T>(items: readonly T[]): T {
    return items[Math.floor(this.next() * items.length)] as T
  }

  bytes(size: number): Uint8Array {
    const bytes = new Uint8Array(size)
    for (let i = 0; i < size; i += 1) bytes[i] = this.#word() & 255
    return bytes
  }
}
