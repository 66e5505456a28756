/**
 * An event whose partition is made is moved; on MySQL and MariaDB so is whatever stays in the tail, each time. Where the
 * snapshot of a read is older than its wait for that, the read misses the event, which is not missing: none is taken for gone
 * before a second look. That is one statement at READ COMMITTED, whose snapshot begins after its own wait; one of a
 * transaction could be too old again.
 */
import type { StoredDelivery } from '../../core/spi/index.ts'
import { type DecodedEvent, MISSING } from './event-row.ts'

/** Once for all of a read. Answers with the events of these deliveries that are there. */
export type FindEvents = (
  deliveryIds: readonly string[],
) => Promise<Iterable<readonly [string, DecodedEvent]>>

/** Completes the rows whose event the read did not find. */
export const lookAgain = async (rows: readonly StoredDelivery[], find: FindEvents): Promise<void> => {
  const unseen = new Map<string, StoredDelivery>()
  for (const row of rows) if (row.problem === MISSING) unseen.set(row.id, row)
  if (unseen.size === 0) return
  for (const [id, { event, problem }] of await find([...unseen.keys()])) {
    const row = unseen.get(id)
    if (row !== undefined) Object.assign(row, { event, problem, size: event?.size ?? 0 })
  }
}
