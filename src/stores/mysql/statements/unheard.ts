/** Stored events that a destination has never had, for an operator who wants it to. */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import type {
  OperatorAct,
  ReconciledDelivery,
  StoredPosition,
  UnheardBatch,
  UnheardQuery,
} from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase } from '../database.ts'
import { writeAudit } from './audit.ts'
import { addUnheard, DRAWN_MS, eventOf, isUnheard } from './reconcile.ts'
import { asBigInt, asMs, asNumber, earlier, NOW, one } from './sql-text.ts'

export const eventFrom = async (
  db: MysqlDatabase,
  t: Tables,
  seq: bigint,
): Promise<StoredPosition | null> => {
  const [row] = await db.rows(
    `SELECT seq, created_at FROM ${t.events} FORCE INDEX (by_seq) WHERE seq >= ? ORDER BY seq LIMIT 1`,
    [seq],
  )
  return row === undefined ? null : { seq: asBigInt(row[0]), createdAtMs: asMs(row[1]) }
}

const nextOf = (t: Tables, { after, upTo, limit }: UnheardQuery): string =>
  `SELECT x.id, x.seq FROM ${t.events} AS x FORCE INDEX (by_seq) WHERE x.seq > ${after} AND x.seq <= ${upTo} ORDER BY x.seq LIMIT ${limit + 1}`

interface Drawn {
  /** Positions that are written, committed or not. */
  readonly written: readonly bigint[]
  /** Up to here every number was drawn so long ago that it is written by now, if it ever will be. */
  readonly old: bigint
}

/**
 * Asked for before the search, which then sees what was committed by now. Up to where a destination began, numbers are as
 * old as the destination; from there on the reconciler goes no further than what is settled.
 */
const drawnBy = async (db: MysqlDatabase, t: Tables, query: UnheardQuery): Promise<Drawn> => {
  const long = earlier(NOW, DRAWN_MS)
  const [, written, events, mark] = await db.script([
    one('SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED'),
    one(nextOf(t, query)),
    one(
      `SELECT COALESCE(MAX(seq), 0) FROM (SELECT seq, created_at FROM ${t.events} FORCE INDEX (by_seq) WHERE seq > ${query.after} ORDER BY seq LIMIT ${query.limit + 1}) AS n WHERE n.created_at < ${long}`,
    ),
    one(
      `SELECT COALESCE(MAX(reconciled_to), 0) FROM ${t.destinations} WHERE name = ? AND started_at < ${long}`,
      [query.destination],
    ),
  ])
  const [byEvents, byMark] = [events, mark].map((answer) => asBigInt(answer?.rows[0]?.[0] ?? 0)) as [
    bigint,
    bigint,
  ]
  return {
    written: (written?.rows ?? []).map(([, seq]) => asBigInt(seq)),
    old: byEvents > byMark ? byEvents : byMark,
  }
}

/** Numbers that are missing among young events may have been drawn by a statement that has not written them yet. */
const settledTo = (
  { after, limit }: UnheardQuery,
  { written, old }: Drawn,
  seen: ReadonlySet<bigint>,
  scannedTo: bigint,
): bigint => {
  let settled = old > after ? old : after
  for (const seq of written) if (seq === settled + 1n) settled = seq
  const open = written.find((seq) => seq <= scannedTo && !seen.has(seq))
  const last = written.length > limit ? written.at(-1) : undefined
  const bounds = [
    settled,
    scannedTo,
    ...(open === undefined ? [] : [open - 1n]),
    ...(last === undefined ? [] : [last]),
  ]
  return bounds.reduce((lowest, bound) => (bound < lowest ? bound : lowest))
}

export const findUnheard = async (
  db: MysqlDatabase,
  t: Tables,
  query: UnheardQuery,
): Promise<UnheardBatch> => {
  const { destination, upTo, limit } = query
  const drawn = await drawnBy(db, t, query)
  const rows =
    await db.rows(`SELECT e.id, e.seq, e.type, e.key, e.size, e.created_at, ${isUnheard(t, destination)}
FROM (${nextOf(t, query)}) AS c STRAIGHT_JOIN ${t.events} AS e ON e.id = c.id ORDER BY c.seq`)
  const looked = rows.slice(0, limit)
  const more = rows.length > limit
  const scannedTo = more ? asBigInt(looked.at(-1)?.[1]) : upTo
  const seen = new Set(looked.map(([, seq]) => asBigInt(seq)))
  return {
    events: looked
      .filter((row) => asNumber(row[6]) === 1)
      .map((row) => ({ ...eventOf(row), createdAtMs: asMs(row[5]) })),
    scanned: looked.length,
    scannedTo,
    settledTo: settledTo(query, drawn, seen, scannedTo),
    more,
  }
}

export const backfill = (
  db: MysqlDatabase,
  t: Tables,
  destination: string,
  deliveries: readonly ReconciledDelivery[],
  scope: object,
  act: OperatorAct,
): Promise<number> =>
  db.transaction(async (c) => {
    // One after another, so that each sees what the other added.
    const known = await c.rows(`SELECT 1 FROM ${t.destinations} WHERE name = ? FOR UPDATE`, [destination])
    if (known.length === 0) {
      throw new StoreError(ERROR_CODES.notFound, `There is no destination "${destination}".`, { destination })
    }
    let added = 0
    if (deliveries.length > 0) {
      const [lock, add] = addUnheard(t, destination, deliveries)
      await c.rows(lock.sql)
      added = await c.write(add.sql)
    }
    await writeAudit(c, t, 'backfill', { destination, ...scope }, added, act)
    return added
  })
