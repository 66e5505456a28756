/** Chance that can be repeated: the same seed and the same visit always give the same numbers. */
export type Chance = () => number

/** Mulberry32: small, fast and even enough for a shop. */
export const chanceOf = (seed: number, visit: number): Chance => {
  let state = (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(visit + 1, 0xc2b2ae35)) >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

export const pick = <T>(chance: Chance, from: readonly T[]): T =>
  from[Math.floor(chance() * from.length)] as T
