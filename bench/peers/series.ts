/** What was measured, by a path such as `drain/1/posthaste`. */
import type { Figure } from './result.ts'

const rounded = (value: number): number =>
  Math.abs(value) >= 100 ? Math.round(value) : Number(value.toFixed(3))

export class Series {
  readonly #values = new Map<string, number[]>()
  readonly #reasons = new Map<string, string>()

  add(path: string, value: number): void {
    const values = this.#values.get(path) ?? []
    values.push(value)
    this.#values.set(path, values)
  }

  /** Why there is nothing at that path. */
  explain(path: string, reason: string): void {
    this.#reasons.set(path, reason)
  }

  figure(path: string): Figure {
    const runs = (this.#values.get(path) ?? []).map(rounded)
    const sorted = [...runs].sort((a, b) => a - b)
    const [low, high] = [sorted[Math.floor((sorted.length - 1) / 2)], sorted[Math.floor(sorted.length / 2)]]
    if (low === undefined || high === undefined) {
      const reason = this.#reasons.get(path) ?? 'not measured'
      return { median: null, min: null, max: null, runs: [], reason }
    }
    return { median: rounded((low + high) / 2), min: sorted[0] ?? low, max: sorted.at(-1) ?? high, runs }
  }
}
