/** When which processes were hit by what. */

export interface FaultLine {
  readonly at: number
  readonly id: number
  readonly kind: string
  readonly what: 'begin' | 'end' | 'missed' | 'refused'
  /** Slots whose sends may come twice because of it; a fault that must not cause duplicates names none. */
  readonly hits: readonly string[] | 'all'
  readonly detail?: string
}

/** What a process noticed itself: it lasted so long, until then. */
export interface Observed {
  readonly at: number
  readonly what: string
  readonly ms?: number
}

interface Window {
  readonly from: number
  to: number
}

export interface FaultEnd {
  readonly at: number
  readonly kind: string
}

const ALL = '*'

export class Faults {
  readonly #aftermathMs: number
  readonly #open = new Map<number, Window>()
  readonly #windows = new Map<string, Window[]>()
  readonly counts: Record<string, number> = {}
  readonly refused: Record<string, string> = {}
  /** What processes noticed themselves: that they stood still, or that others took their lanes. */
  readonly observed: Record<string, number> = {}
  readonly ends: FaultEnd[] = []

  constructor(aftermathMs: number) {
    this.#aftermathMs = aftermathMs
  }

  add({ id, at, kind, what, hits, detail }: FaultLine): void {
    if (what === 'refused') {
      this.refused[kind] = detail ?? 'no reason was given'
      return
    }
    if (what !== 'begin') {
      const window = this.#open.get(id)
      if (window === undefined) return
      window.to = at
      if (what === 'missed') return
      this.counts[kind] = (this.counts[kind] ?? 0) + 1
      this.ends.push({ at, kind })
      return
    }
    // Until its end is known it lasts.
    const window = { from: at, to: Infinity }
    this.#open.set(id, window)
    for (const slot of hits === 'all' ? [ALL] : hits) this.#put(slot, window)
  }

  observe(slot: string, { at, what, ms = 0 }: Observed): void {
    this.observed[what] = (this.observed[what] ?? 0) + 1
    this.#put(slot, { from: at - ms, to: at })
  }

  /** Whether a send of this slot at this time may have been in flight at a fault. */
  excuse(slot: string, at: number): boolean {
    const near = ({ from, to }: Window): boolean =>
      at >= from - this.#aftermathMs && at <= to + this.#aftermathMs
    return [slot, ALL].some((each) => this.#windows.get(each)?.some(near) ?? false)
  }

  #put(slot: string, window: Window): void {
    const windows = this.#windows.get(slot)
    if (windows === undefined) this.#windows.set(slot, [window])
    else windows.push(window)
  }
}
