/**
 * The lane of a delivery decides which worker may send it, so every writer must compute the same one: this
 * library, a database trigger, a program in another language. The algorithm is therefore part of the schema and
 * never changes:
 *
 * 1. The input is the event's key or, without a key, the event's id as 36 characters of lower-case text.
 * 2. h = FNV-1a, 32 bits, over the input's UTF-8 bytes: h starts at 2166136261; for each byte
 *    h = ((h XOR byte) × 16777619) mod 2^32.
 * 3. lane = (h XOR (h shifted right by 16)) mod 64.
 *
 * Step 3 folds the upper half in because the lowest bits of FNV-1a depend only on the lowest bits of the bytes:
 * keys that differ in one digit would otherwise crowd into few lanes.
 *
 * A PostgreSQL trigger computes step 2 in bigint: `h := ((h # byte) * 16777619) & 4294967295`.
 */
export const LANES = 64

/** 2166136261 as a signed number: beyond 2^31 the engine would calculate in doubles. */
const FNV_OFFSET = 0x811c9dc5 | 0
const FNV_PRIME = 0x01000193

export function laneOf(keyOrId: string): number {
  let hash = FNV_OFFSET
  for (let i = 0; i < keyOrId.length; i++) {
    const unit = keyOrId.charCodeAt(i)
    if (unit < 0x80) {
      hash = Math.imul(hash ^ unit, FNV_PRIME)
    } else {
      const point = codePointAt(keyOrId, i)
      if (point > 0xffff) i += 1
      hash = hashMultiByte(hash, point)
    }
  }
  return (hash ^ (hash >>> 16)) & (LANES - 1)
}

/** A lone surrogate has no UTF-8 form; it counts as U+FFFD, which is what every encoder writes in its place. */
function codePointAt(text: string, index: number): number {
  const point = text.codePointAt(index) as number
  return point >= 0xd800 && point <= 0xdfff ? 0xfffd : point
}

function hashMultiByte(start: number, point: number): number {
  const tail = 0x80 | (point & 0x3f)
  if (point < 0x800) return mix(mix(start, 0xc0 | (point >> 6)), tail)
  const middle = 0x80 | ((point >> 6) & 0x3f)
  if (point < 0x10000) return mix(mix(mix(start, 0xe0 | (point >> 12)), middle), tail)
  const second = 0x80 | ((point >> 12) & 0x3f)
  return mix(mix(mix(mix(start, 0xf0 | (point >> 18)), second), middle), tail)
}

const mix = (hash: number, byte: number): number => Math.imul(hash ^ byte, FNV_PRIME)
