/**
 * What happened, in order: a running hash that must be the same for the same seed, and the lines from which the
 * story of a violation is told.
 */
export interface TraceLine {
  readonly atMs: number
  readonly who: string
  readonly what: string
  /** Numbers of the events it is about; none for what concerns a whole process. */
  readonly about: readonly number[]
}

const NOBODY: readonly number[] = []
/** What they do concerns everybody. */
const OTHERS: ReadonlySet<string> = new Set(['database', 'operator', 'checker'])

export class Trace {
  readonly lines: TraceLine[] = []
  #high = 0x811c9dc5 | 0
  #low = 0x1b873593 | 0

  add(atMs: number, who: string, what: string, about: readonly number[] = NOBODY): void {
    this.lines.push({ atMs, who, what, about })
    this.#mix(`${atMs.toFixed(3)} ${who} ${what} ${about.join(',')}`)
  }

  get hash(): string {
    return hex(this.#high) + hex(this.#low)
  }

  /** The last lines about these events, with what happened in between to those who had to do with them. */
  story(about: ReadonlySet<number>, limit = 60): readonly string[] {
    const isMeant = (line: TraceLine): boolean => line.about.some((event) => about.has(event))
    const involved = new Set(this.lines.filter(isMeant).map(({ who }) => who))
    const isTold = (line: TraceLine): boolean =>
      isMeant(line) ||
      (isAboutProcess(line) && (involved.has(line.who) || OTHERS.has(line.who) || about.size === 0))
    return this.lines.filter(isTold).slice(-limit).map(formatLine)
  }

  #mix(text: string): void {
    let { high, low } = { high: this.#high, low: this.#low }
    for (let i = 0; i < text.length; i += 1) {
      const unit = text.charCodeAt(i)
      high = Math.imul(high ^ unit, 0x01000193)
      low = Math.imul(low ^ unit, 0x5bd1e995)
    }
    this.#high = high ^ (low >>> 13)
    this.#low = low ^ (high >>> 17)
  }
}

/** Crashes, pauses, fences and the like; store calls in general are too many to tell. */
const isAboutProcess = (line: TraceLine): boolean => line.about.length === 0 && line.what.startsWith('*')

export const formatLine = ({ atMs, who, what, about }: TraceLine): string => {
  const events = about.length === 0 ? '' : ` [${about.map((event) => `e${event}`).join(' ')}]`
  return `${(atMs / 1_000).toFixed(3).padStart(9)} s  ${who.padEnd(9)} ${what.replace(/^\*/, '')}${events}`
}

const hex = (word: number): string => (word >>> 0).toString(16).padStart(8, '0')
