/**
 * Event ids: UUID version 7 (RFC 9562), strictly increasing as text within one generator.
 *
 * ```
 * unix_ts_ms 48 | version 4 | counter high 12 | variant 2 | counter low 30 | random 32
 * ```
 *
 * The 42-bit counter starts each millisecond at a random value whose top bit is zero, so at least 2^41 ids fit
 * behind it and two processes in the same millisecond still differ in 73 random bits. While the clock stands
 * still or is behind the last id, the last timestamp is kept and the counter goes on. A full counter borrows
 * the next millisecond instead of wrapping round.
 */
export interface IdSource {
  /** Milliseconds since the Unix epoch; may stand still or step back. */
  wallNow(): number
  /** Exactly `length` unpredictable bytes. */
  randomBytes(length: number): Uint8Array
}

const MAX_TIMESTAMP_MS = 2 ** 48 - 1
const COUNTER_HIGH_END = 2 ** 12
const COUNTER_LOW_END = 2 ** 30
/** Asking the operating system for random bytes costs far more than using them, so they are drawn in blocks. */
const RANDOM_BLOCK_BYTES = 2048

const HEX: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))
const DIGITS = Uint8Array.from('0123456789abcdef', (digit) => digit.charCodeAt(0))

const UUID_TEXT = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export function createIdGenerator(source: IdSource): () => string {
  let timestampMs = Number.NEGATIVE_INFINITY
  let counterHigh = 0
  let counterLow = 0
  // Written in place and read out as one flat string; text joined from pieces costs twice as much to make and use.
  const text = Buffer.from('00000000-0000-7000-8000-000000000000', 'latin1')
  let block = new Uint8Array(0)
  let blockOffset = 0

  const drawWord = (): number => {
    if (blockOffset + 4 > block.length) {
      // The copy keeps ids unique when a caller goes on writing to the array that it handed out.
      block = Uint8Array.from(source.randomBytes(RANDOM_BLOCK_BYTES))
      if (block.length !== RANDOM_BLOCK_BYTES) {
        throw new RangeError(`randomBytes(${RANDOM_BLOCK_BYTES}) gave ${block.length} bytes`)
      }
      blockOffset = 0
    }
    const word =
      ((block[blockOffset] as number) << 24) |
      ((block[blockOffset + 1] as number) << 16) |
      ((block[blockOffset + 2] as number) << 8) |
      (block[blockOffset + 3] as number)
    blockOffset += 4
    return word
  }

  const startMillisecond = (ms: number): void => {
    // Written so that NaN fails too: a broken clock must not become a plausible id.
    if (!(ms >= 0 && ms <= MAX_TIMESTAMP_MS)) {
      throw new RangeError(`the clock gave ${ms} ms, outside 0 … 2^48−1`)
    }
    // Both draws come first: if the source throws, the generator stays as it was and keeps its order.
    const high = drawWord() & (COUNTER_HIGH_END / 2 - 1)
    const low = drawWord() & (COUNTER_LOW_END - 1)
    timestampMs = ms
    counterHigh = high
    counterLow = low
    const digits = ms.toString(16).padStart(12, '0')
    text.write(`${digits.slice(0, 8)}-${digits.slice(8)}`, 0, 'latin1')
  }

  const countUp = (): void => {
    if (counterLow + 1 < COUNTER_LOW_END) {
      counterLow += 1
    } else if (counterHigh + 1 < COUNTER_HIGH_END) {
      counterHigh += 1
      counterLow = 0
    } else {
      startMillisecond(timestampMs + 1)
    }
  }

  return () => {
    const now = Math.floor(source.wallNow())
    if (now <= timestampMs) countUp()
    else startMillisecond(now)
    const random = drawWord()
    writeByte(text, 14, 0x70 | (counterHigh >>> 8))
    writeByte(text, 16, counterHigh)
    writeByte(text, 19, 0x80 | (counterLow >>> 24))
    writeByte(text, 21, counterLow >>> 16)
    writeByte(text, 24, counterLow >>> 8)
    writeByte(text, 26, counterLow)
    writeByte(text, 28, random >>> 24)
    writeByte(text, 30, random >>> 16)
    writeByte(text, 32, random >>> 8)
    writeByte(text, 34, random)
    return text.toString('latin1')
  }
}

/** How many digits of a worker's id its hot tokens end with. */
const TOKEN_MARK_LENGTH = 12

/**
 * A fresh id made into the token of a hot claim. A token that was used up stays with the delivery as the only thing that
 * says who delivered it, so it ends like the id of its worker: that costs no column and no round trip. The counter and the random
 * digits of the fresh id, which make it unique, move to the front; version 8 (RFC 9562: laid out by whoever makes it) tells
 * tokens from worker ids.
 */
export function hotToken(fresh: string, workerId: string): string {
  const front = `${fresh.slice(24, 32)}-${fresh.slice(32)}`
  return `${front}-8${fresh.slice(15, 18)}-${fresh.slice(19, 23)}-${workerId.slice(-TOKEN_MARK_LENGTH)}`
}

/** The last digits of its worker's id; null for everything else. */
export function markOfToken(text: string): string | null {
  return isUuid(text) && text.charAt(14) === '8' ? text.slice(-TOKEN_MARK_LENGTH).toLowerCase() : null
}

/** Writes the lowest eight bits as two digits. */
function writeByte(text: Uint8Array, offset: number, byte: number): void {
  text[offset] = DIGITS[(byte >>> 4) & 15] as number
  text[offset + 1] = DIGITS[byte & 15] as number
}

/** Accepts every UUID version in the usual hyphenated form, in either case. */
export function isUuid(value: unknown): value is string {
  return typeof value === 'string' && value.length === 36 && UUID_TEXT.test(value)
}

/** The 32 lower-case hexadecimal digits, as SQL's binary literals want them. */
export function uuidToHex(uuid: string): string {
  if (!isUuid(uuid)) throw new TypeError('not a UUID; check it with isUuid first')
  const digits =
    uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(14, 18) + uuid.slice(19, 23) + uuid.slice(24)
  return digits.toLowerCase()
}

export function uuidToBytes(uuid: string): Uint8Array {
  const digits = uuidToHex(uuid)
  const bytes = new Uint8Array(16)
  for (let i = 0; i < 16; i++) bytes[i] = (nibble(digits, 2 * i) << 4) | nibble(digits, 2 * i + 1)
  return bytes
}

/** '0'–'9' end in 0–9 and 'a'–'f' in 1–6, with bit 6 set only for letters. */
function nibble(digits: string, index: number): number {
  const code = digits.charCodeAt(index)
  return (code & 15) + (code >> 6) * 9
}

export function uuidFromBytes(bytes: Uint8Array): string {
  if (bytes.length !== 16) throw new TypeError(`a UUID has 16 bytes, not ${bytes.length}`)
  let text = ''
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) text += '-'
    text += HEX[bytes[i] as number] as string
  }
  return text
}

/** When a version 7 id was made; undefined for the other versions, which do not say so in this place. */
export function uuidTimestampMs(uuid: string): number | undefined {
  if (!isUuid(uuid) || uuid.charAt(14) !== '7') return undefined
  return Number.parseInt(uuid.slice(0, 8), 16) * 2 ** 16 + Number.parseInt(uuid.slice(9, 13), 16)
}
