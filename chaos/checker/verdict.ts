/** What the checker found, counted, and the first few of each kind in words. */

import type { Faults } from '../../src/cli/prove/faults.ts'
import type { Recovery } from '../../src/cli/prove/recovery.ts'
import type { RunFacts } from '../logs.ts'

/** Each of these is a broken promise. */
const VIOLATIONS = [
  'lost',
  'ghosts',
  'orderViolations',
  'illegalTransitions',
  'unexplained',
  'wrongAnswers',
] as const

export type Violation = (typeof VIOLATIONS)[number]

type Counted =
  | Violation
  | 'delivered'
  | 'dead'
  | 'unknown'
  | 'duplicates'
  | 'duplicateBound'
  | 'attemptsSpent'

const STORIES = 10

export interface Verdict {
  readonly seed: number
  readonly store: string
  /** With commas between. */
  readonly destination: string
  readonly committed: number
  readonly delivered: number
  readonly dead: number
  readonly lost: number
  readonly ghosts: number
  readonly duplicates: number
  readonly duplicateBound: number
  /** Duplicates of a delivery that were not all in flight at a fault. */
  readonly unexplained: number
  readonly orderViolations: number
  /** Beyond those that the events asked for, of what was delivered: spent on faults. */
  readonly attemptsSpent: number
  readonly illegalTransitions: number
  /** Transactions that failed according to their answer, and happened. */
  readonly wrongAnswers: number
  /** Transactions whose outcome nobody was told. */
  readonly unknown: number
  readonly drained: boolean
  /** Processes that ended although nobody had asked them to. */
  readonly crashes: readonly string[]
  readonly faults: Readonly<Record<string, number>>
  readonly refused: Readonly<Record<string, string>>
  readonly observed: Readonly<Record<string, number>>
  readonly recoveryMs: Recovery
  readonly ok: boolean
  readonly stories: Readonly<Partial<Record<Violation, readonly string[]>>>
}

export class Findings {
  readonly #counts = new Map<Counted, number>()
  readonly #stories: Partial<Record<Violation, string[]>> = {}

  count(what: Counted, by = 1): void {
    this.#counts.set(what, this.get(what) + by)
  }

  add(violation: Violation, story: string): void {
    this.count(violation)
    this.#stories[violation] ??= []
    const stories = this.#stories[violation]
    if (stories.length < STORIES) stories.push(story)
  }

  get(what: Counted): number {
    return this.#counts.get(what) ?? 0
  }

  verdict(facts: RunFacts, committed: number, faults: Faults, recoveryMs: Recovery): Verdict {
    const { drained: said, crashes } = facts
    const drained = said ?? false
    const within = this.get('duplicates') <= this.get('duplicateBound')
    return {
      seed: facts.seed,
      store: facts.store,
      destination: facts.destinations.join(','),
      committed,
      delivered: this.get('delivered'),
      dead: this.get('dead'),
      lost: this.get('lost'),
      ghosts: this.get('ghosts'),
      duplicates: this.get('duplicates'),
      duplicateBound: this.get('duplicateBound'),
      unexplained: this.get('unexplained'),
      orderViolations: this.get('orderViolations'),
      attemptsSpent: this.get('attemptsSpent'),
      illegalTransitions: this.get('illegalTransitions'),
      wrongAnswers: this.get('wrongAnswers'),
      unknown: this.get('unknown'),
      drained,
      crashes,
      faults: faults.counts,
      refused: faults.refused,
      observed: faults.observed,
      recoveryMs,
      // A run in which nothing was committed proves nothing.
      ok:
        drained &&
        within &&
        committed > 0 &&
        crashes.length === 0 &&
        VIOLATIONS.every((each) => this.get(each) === 0),
      stories: this.#stories,
    }
  }
}
