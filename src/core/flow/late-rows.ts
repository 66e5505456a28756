/**
 * Rows that a sweep found behind the cursor, such as those of a transaction that committed late.
 *
 * They come from a younger snapshot than the sweep: a row before one of them may have become pending in between. So keyed
 * ones are asked for what is ahead of them, and a key of which we do not have everything in hand waits for the next read.
 */
import type { Store, StoredDelivery, SweptDelivery } from '../spi/index.ts'
import type { Queues } from './queues.ts'

/** What is ahead of a keyed row that does not come in order is listed up to here; with more the poller takes it in order. */
export const AHEAD_LIMIT = 16

export interface LateParts {
  readonly destination: string
  readonly store: Pick<Store, 'queue'>
  readonly dispatcher: { readonly queues: Pick<Queues, 'coversKey'> }
}

export interface LateRows {
  /** In order. */
  readonly rows: readonly StoredDelivery[]
  /** Keys of which something is ahead that we do not have in hand. */
  readonly unsure: readonly string[]
}

export const bySeq = (a: StoredDelivery, b: StoredDelivery): number =>
  a.seq < b.seq ? -1 : a.seq > b.seq ? 1 : 0

/** Those that nothing holds back, in order. */
const idsByKey = (rows: readonly StoredDelivery[]): ReadonlyMap<string, readonly string[]> => {
  const ids = new Map<string, string[]>()
  for (const { id, key, behind } of rows) {
    if (key === null || behind) continue
    const mine = ids.get(key)
    if (mine === undefined) ids.set(key, [id])
    else mine.push(id)
  }
  return ids
}

export const readLate = async (
  { destination, store, dispatcher }: LateParts,
  missing: readonly SweptDelivery[],
  workerId: string,
): Promise<LateRows> => {
  const ids = missing.map(({ id }) => id)
  const rows = [...(await store.queue.readByIds(destination, ids))].sort(bySeq)
  const keyed = [...idsByKey(rows)].map(([key, mine]) => ({ key, mine, last: mine.at(-1) as string }))
  if (keyed.length === 0) return { rows, unsure: [] }
  // Late ones of the same key are ahead of each other.
  const limit = AHEAD_LIMIT + Math.max(...keyed.map(({ mine }) => mine.length))
  // What is ahead of the others of a key is ahead of the last one as well.
  const heads = await store.queue.claim(
    workerId,
    keyed.map(({ last }) => last),
    limit,
  )
  const aheadOf = new Map(heads.map(({ id, ahead }) => [id, ahead]))
  const isInHand = ({ key, mine, last }: (typeof keyed)[number]): boolean => {
    const ahead = aheadOf.get(last)
    // A list as long as the limit may have been cut off.
    if (ahead === undefined || ahead.length >= limit) return false
    const late = new Set(mine)
    return dispatcher.queues.coversKey(
      key,
      ahead.filter((id) => !late.has(id)),
    )
  }
  return { rows, unsure: keyed.filter((one) => !isInHand(one)).map(({ key }) => key) }
}
