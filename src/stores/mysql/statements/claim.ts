/** Keyed events right after their commit: may they be sent from memory, and what of their key is before them? */
import { UNROUTED } from '../../../core/model/index.ts'
import type { ClaimedHead } from '../../../core/spi/index.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { MysqlDatabase } from '../database.ts'
import { literal } from '../script.ts'
import {
  asBigInt,
  asId,
  asNumber,
  asText,
  idList,
  KEY,
  lockWorkers,
  one,
  UNCLAIMED,
  workerIsAlive,
} from './sql-text.ts'

/** Where rows of a key are found that come first: one walk of the index each. */
const PLACES: readonly { readonly destination: 'own' | 'unrouted'; readonly where: string }[] = [
  { destination: 'own', where: 'a.holds_key = 0 AND a.status = 0' },
  { destination: 'own', where: 'a.holds_key = 1 AND a.status = 0' },
  { destination: 'own', where: 'a.holds_key = 1 AND a.status = 2' },
  { destination: 'own', where: 'a.holds_key = 1 AND a.status = 3' },
  { destination: 'own', where: 'a.holds_key = 1 AND a.status = 6' },
  { destination: 'unrouted', where: 'a.holds_key = 0 AND a.status = 0' },
]

const isAhead = (t: Tables): string =>
  PLACES.map(
    ({ destination, where }) =>
      `EXISTS (SELECT 1 FROM ${t.deliveries} AS a WHERE a.destination = ${destination === 'own' ? 'd.destination' : `'${UNROUTED}'`} AND a.key = d.key AND ${where} AND a.seq < d.seq)`,
  ).join(' OR ')

interface Waiting {
  readonly id: string
  readonly seq: bigint
  readonly destination: string
  readonly key: string
}

/** The first ones are enough, because a key may have a million rows. */
const aheadOf = (t: Tables, { seq, destination, key }: Waiting, limit: number): string => {
  const walks = PLACES.map(
    (place) => `(SELECT a.id, a.seq FROM ${t.deliveries} AS a FORCE INDEX (by_key)
  WHERE a.destination = ${literal(place.destination === 'own' ? destination : UNROUTED)} AND a.key = ${literal(key)} AND ${place.where} AND a.seq < ${seq} ORDER BY a.seq LIMIT ${limit})`,
  )
  return `SELECT b.id FROM (${walks.join('\nUNION ')}) AS b ORDER BY b.seq LIMIT ${limit}`
}

/**
 * Writes nothing: the right it gives is the lane, and a fenced worker's settles are refused. Most rows are the
 * head of their key, and then one round trip is enough.
 */
export const claim = async (
  db: MysqlDatabase,
  t: Tables,
  workerId: string,
  ids: readonly string[],
  aheadLimit: number,
): Promise<readonly ClaimedHead[]> => {
  if (ids.length === 0) return []
  const [, found] = await db.atomic([
    lockWorkers(t, [workerId]),
    one(`SELECT d.id, d.seq, d.destination, d.${KEY}, d.key IS NOT NULL AND (${isAhead(t)})
FROM ${t.deliveries} AS d
WHERE d.id IN (${idList(ids)}) AND d.status = 0 AND ${UNCLAIMED} AND ${workerIsAlive(t, workerId)}
ORDER BY d.seq`),
  ])
  const rows = found?.rows ?? []
  const waiting: Waiting[] = rows
    .filter((row) => asNumber(row[4]) === 1)
    .map((row) => ({
      id: asId(row[0]),
      seq: asBigInt(row[1]),
      destination: asText(row[2]),
      key: asText(row[3]),
    }))
  const answers = await db.script(waiting.map((row) => one(aheadOf(t, row, aheadLimit))))
  const ahead = new Map(
    waiting.map(({ id }, i) => [id, (answers[i]?.rows ?? []).map(([other]) => asId(other))]),
  )
  return rows.map((row) => ({
    id: asId(row[0]),
    seq: asBigInt(row[1]),
    ahead: ahead.get(asId(row[0])) ?? [],
  }))
}
