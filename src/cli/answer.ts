/** The answer for programs: one JSON object, on a line of its own whatever was written before it. */
import { jsonText } from './text.ts'

/** Watches what is written, because listeners and configurations may write there, too. */
export class Answers {
  readonly #stream: NodeJS.WriteStream
  /** Somebody has begun a line and not ended it. */
  #isLineOpen = false

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream
    const write = stream.write.bind(stream) as (...args: readonly unknown[]) => boolean
    stream.write = (chunk: string | Uint8Array, ...rest: readonly unknown[]): boolean => {
      if (chunk.length > 0) this.#isLineOpen = chunk.at(-1) !== (typeof chunk === 'string' ? '\n' : NEWLINE)
      return write(chunk, ...rest)
    }
  }

  /** Other processes write there: nobody can know where their lines end. */
  isShared = false

  /** A program was answered. */
  isGiven = false

  give(answer: Readonly<Record<string, unknown>>): void {
    this.isGiven = true
    const begin = this.#isLineOpen || this.isShared ? '\n' : ''
    this.#stream.write(`${begin}${jsonText(answer)}\n`)
  }
}

const NEWLINE = 10
