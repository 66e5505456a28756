/**
 * How partitions of `events` and `finished` are looked after, whichever the server: in which order, how far ahead, how
 * patiently, and what is said of those that could not be made or have to stay.
 */
import type { StoreContext } from '../../core/spi/index.ts'

export type Partitioned = 'events' | 'finished'

/** Finished rows are dropped before the events that they are about. */
export const PARTITIONED: readonly Partitioned[] = ['finished', 'events']

/** What `migrate` makes; the maintainer goes on from there. */
export const FIRST_LOOK_AHEAD_MS = 30 * 86_400_000

/** With more rows in the tail no partition is made: nothing may be locked for as long as moving them takes. */
export const MAX_MOVED = 10_000

/** Why a partition stays, as its check says it. */
export const STAYS = Object.freeze({
  recent: 'it has deliveries that finished within the retention',
  unreconciled: 'it has deliveries that not every destination is reconciled past',
  unfinished: 'it has events with unfinished or dead deliveries',
  finished: 'it has events whose finished deliveries are still kept',
})

/** Attempts of dropped deliveries go in steps of this many. */
export const ATTEMPTS_STEP = 5_000
export const MAX_STEPS = 1_000

const TRIES = 4
const FIRST_PAUSE_MS = 200

interface Database {
  readonly context: StoreContext
  pause(ms: number): Promise<void>
}

/** What an error means for a change: somebody else has made it, or was in the way. Null: anything else. */
export type Setback = 'faster' | 'passing' | 'crowded' | null

export const FASTER = 'another process was faster'

const WAITS = Object.freeze({
  passing: 'transactions that use the table did not leave room for it',
  crowded: 'all connections of the store were in use',
})

/** Null when it was done; a reason when `change` found one, or when it has to wait for another time. */
export const changePatiently = async (
  database: Database,
  change: () => Promise<string | null>,
  setbackOf: (error: unknown) => Setback,
): Promise<string | null> => {
  for (let tries = 1; ; tries++) {
    try {
      return await change()
    } catch (error) {
      const setback = setbackOf(error)
      if (setback === null) throw error
      if (setback === 'faster') return FASTER
      if (tries >= TRIES) return WAITS[setback]
    }
    await database.pause(FIRST_PAUSE_MS * 2 ** (tries - 1) * (0.5 + database.context.runtime.random()))
  }
}

/** What `FASTER` says where no process has made it. */
export const IN_THE_WAY = 'another table or partition has its name'

export const warnNotMade = ({ context }: Database, partition: string, reason: string): void =>
  context.logger.log('warn', 'a partition could not be made; its rows go to the tail', { partition, reason })
