/** The regime of a soak: a steady load, small faults now and then, and a short memory, so that tables stop growing. */

import { SLOTS } from '../chaos/nemesis/crew.ts'
import { CHAOS, type Regime } from '../chaos/regime.ts'

/** A transaction publishes one event, and one in ten three of them. */
const EVENTS_PER_TRANSACTION = 1.2
const PRODUCERS = SLOTS.filter(({ produces }) => produces).length

/** One of each role lives as long as the run, so that a leak has time to show; the others are killed now and then. */
export const SPARED: readonly string[] = ['worker1', 'both1', 'producer1']

const within = (value: number, low: number, high: number): number =>
  Math.round(Math.min(high, Math.max(low, value)))

export const soakRegime = (minutes: number, eventsPerSecond: number): Regime => {
  const ms = minutes * 60_000
  return {
    ...CHAOS,
    home: '.soak',
    kept: 3,
    perSecond: eventsPerSecond / EVENTS_PER_TRANSACTION / PRODUCERS,
    cleanupMs: 2_000,
    transitions: false,
    faults: ['kill-worker', 'kill-producer', 'kill-connections', 'long-transaction'],
    pauseMs: [within(ms / 60, 2_000, 10_000), within(ms / 25, 4_000, 25_000)],
    spared: SPARED,
    sampleMs: within(ms / 180, 1_000, 5_000),
  }
}
