/** What a run is like: what its crew does, what is broken, how often, and what is watched meanwhile. */

export interface Regime {
  /** The folder in which runs are kept, and how many of them. */
  readonly home: string
  readonly kept: number
  /** Transactions of one producer, if it keeps up. */
  readonly perSecond: number
  /**
   * What is finished is removed this often; null: nothing is removed during the run. Where it is, nothing is published
   * that only a row could account for later: no key comes twice, and nothing is refused for good.
   */
  readonly cleanupMs: number | null
  /** Triggers note every change of a delivery. */
  readonly transitions: boolean
  /** Kinds of faults; null: all that there are. */
  readonly faults: readonly string[] | null
  /** Between two faults. */
  readonly pauseMs: readonly [shortest: number, longest: number]
  /** Slots whose processes live as long as the run. */
  readonly spared: readonly string[]
  /** Processes and tables are measured this often; null: never. */
  readonly sampleMs: number | null
}

export const CHAOS: Regime = {
  home: '.chaos',
  kept: 8,
  perSecond: 30,
  cleanupMs: null,
  transitions: true,
  faults: null,
  pauseMs: [200, 1_500],
  spared: [],
  sampleMs: null,
}
