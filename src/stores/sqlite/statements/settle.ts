/**
 * Stage 6: the outcomes of a whole flush in a handful of statements, however many deliveries there are. The
 * caller holds the write lock, so rights that are checked in one statement still hold in the next.
 *
 * A right is used up by the settle that names it: the token leaves the row and is kept as `settled_by`, so
 * that a repeated settle is recognised and a stale one finds nothing.
 */

import { type Right, uuidToHex } from '../../../core/model/index.ts'
import type { Settlement, SettleRequest, SettleResult } from '../../../core/spi/index.ts'
import { retryDelay } from '../../sql/failures.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqliteConnection } from '../connection.ts'
import { keepHistory } from './history.ts'
import { type KeyOf, promote } from './hold.ts'
import { asId, asNumber, asText, IDS, idList, NOW, sqlText } from './sql-text.ts'
import { addTotals } from './totals.ts'

const WORKERS = sqlText(
  (t) => `SELECT id FROM ${t.workers} WHERE fenced = 0 AND id IN (SELECT value FROM json_each(?))`,
)

/**
 * A done row travels as fixed columns in one string, because taking strings apart is several times cheaper
 * than JSON inside JSON: 32 digits of the id, `l` or `t` for lane or token, 10 digits of attempts, the right.
 */
const packed = (settlement: Settlement): string => {
  const { delivery, attempts } = settlement
  const kind = delivery.right.kind === 'lane' ? 'l' : 't'
  return uuidToHex(delivery.id) + kind + String(attempts).padStart(10, '0') + nameOf(delivery.right)
}

const doneRows = (
  t: Tables,
): string => `FROM json_each(?) AS j CROSS JOIN ${t.deliveries} AS d ON d.id = unhex(substr(j.value, 1, 32))
WHERE d.status <> 3 AND (substr(j.value, 33, 1) = 'l' OR d.token = substr(j.value, 44))`

const FINISH = sqlText(
  (
    t,
  ) => `INSERT INTO ${t.finished} (id, event_id, seq, destination, run, lane, key, status, attempts, suspicions, size, created_at, finished_at, settled_by)
SELECT d.id, d.event_id, d.seq, d.destination, d.run, d.lane, d.key, 1, max(d.attempts, CAST(substr(j.value, 34, 10) AS INTEGER)),
  d.suspicions, d.size, d.created_at, ${NOW}, substr(j.value, 44)
${doneRows(t)}`,
)

/** Asked for before they go: RETURNING would hand over every row, and of a thousand only few hold a key. */
const TALLY = sqlText(
  (t) =>
    `SELECT d.destination, CASE d.holds_key WHEN 1 THEN d.key END AS held_key, count(*) ${doneRows(t)} GROUP BY 1, 2`,
)

const REMOVE = sqlText((t) => `DELETE FROM ${t.deliveries} WHERE id IN (SELECT d.id ${doneRows(t)})`)

/** Under a live hot claim it was to be had since it was stored. */
const releasedAt = `CASE WHEN d.available_at > ${NOW} THEN d.created_at ELSE d.available_at END`

/** Retry, dead and released together; `kind` is the new status, or -1 for a release. Attempts only grow. */
const CHANGE = sqlText(
  (t) => `UPDATE ${t.deliveries} AS d SET
  status = CASE j.kind WHEN -1 THEN d.status ELSE j.kind END,
  attempts = CASE j.kind WHEN -1 THEN d.attempts ELSE max(d.attempts, j.attempts) END,
  available_at = CASE j.kind WHEN 2 THEN ${NOW} + j.delay WHEN -1 THEN ${releasedAt} ELSE d.available_at END,
  holds_key = CASE j.kind WHEN -1 THEN d.holds_key WHEN 2 THEN d.key IS NOT NULL ELSE j.holds AND d.key IS NOT NULL END,
  parked = j.kind = 3 AND j.parked AND d.key IS NOT NULL, token = NULL, settled_by = j.named, settled_at = ${NOW}
FROM (
  SELECT unhex(value->>0) AS id, value->>1 AS by_lane, value->>2 AS named, value->>3 AS kind, value->>4 AS attempts,
    value->>5 AS delay, value->>6 AS holds, value->>7 AS parked
  FROM json_each(?)
) AS j
WHERE d.id = j.id AND d.status <> 3 AND (j.by_lane OR d.token = j.named)
RETURNING id, destination, key`,
)

const SETTLED = sqlText(
  (t) => `SELECT id, status, settled_by FROM ${t.deliveries} WHERE id IN ${IDS} AND token IS NULL
UNION ALL SELECT id, status, settled_by FROM ${t.finished} WHERE id IN ${IDS}`,
)

const nameOf = (right: Right): string => (right.kind === 'lane' ? right.workerId : right.token)

const KIND = { retry: 2, dead: 3, released: -1 } as const

const changeJson = ({ delivery, outcome, attempts, deadHoldsKey, deadParked }: Settlement): unknown[] => [
  uuidToHex(delivery.id),
  Number(delivery.right.kind === 'lane'),
  nameOf(delivery.right),
  outcome.kind === 'done' ? null : KIND[outcome.kind],
  attempts,
  outcome.kind === 'retry' ? retryDelay(outcome.delayMs) : 0,
  Number(deadHoldsKey),
  Number(deadParked),
]

/** Settlements whose worker was fenced are left out; tokens are compared in the statements themselves. */
const entitled = (
  c: SqliteConnection,
  t: Tables,
  settlements: readonly Settlement[],
): readonly Settlement[] => {
  const workers = new Set<string>()
  for (const { delivery } of settlements) {
    if (delivery.right.kind === 'lane') workers.add(delivery.right.workerId)
  }
  if (workers.size === 0) return settlements
  const alive = new Set(c.rows(WORKERS(t), [JSON.stringify([...workers])]).map(([id]) => asText(id)))
  return settlements.filter(
    ({ delivery }) => delivery.right.kind === 'token' || alive.has(delivery.right.workerId),
  )
}

/** Repeating a settle finds its row settled by the same right in the same way. */
const isRepetition = ({ delivery, outcome }: Settlement, status: number, settledBy: unknown): boolean => {
  if (settledBy !== nameOf(delivery.right)) return false
  if (outcome.kind === 'done') return status === 1
  if (outcome.kind === 'dead') return status === 3
  return status !== 1 && status !== 4
}

const findLost = (
  c: SqliteConnection,
  t: Tables,
  entitledOnes: ReadonlySet<Settlement>,
  unsettled: readonly Settlement[],
): readonly string[] => {
  if (unsettled.length === 0) return []
  const list = idList(unsettled.map(({ delivery }) => delivery.id))
  const found = new Map(
    c.rows(SETTLED(t), [list, list]).map(([id, status, by]) => [asId(id), { status: asNumber(status), by }]),
  )
  return unsettled
    .filter((settlement) => {
      const row = found.get(settlement.delivery.id)
      if (row === undefined || !entitledOnes.has(settlement)) return true
      return !isRepetition(settlement, row.status, row.by)
    })
    .map(({ delivery }) => delivery.id)
}

interface Written {
  readonly ids: Set<string>
  readonly keys: KeyOf[]
}

/** When there were fewer rows than asked for, `findLost` learns from `finished` which ones these were. */
const writeDone = (c: SqliteConnection, t: Tables, done: readonly Settlement[], written: Written): void => {
  if (done.length === 0) return
  const unique = [...new Map(done.map((one) => [one.delivery.id, one])).values()]
  const list = JSON.stringify(unique.map(packed))
  const totals = new Map<string, number>()
  let found = 0
  for (const [name, key, count] of c.rows(TALLY(t), [list])) {
    const destination = asText(name)
    if (key !== null) written.keys.push({ destination, key: asText(key) })
    totals.set(destination, (totals.get(destination) ?? 0) + asNumber(count))
    found += asNumber(count)
  }
  if (found === 0) return
  c.rows(FINISH(t), [list])
  c.rows(REMOVE(t), [list])
  addTotals(
    c,
    t,
    [...totals].map(([destination, count]) => ({ destination, done: count, discarded: 0 })),
  )
  if (found === unique.length) for (const { delivery } of unique) written.ids.add(delivery.id)
}

const writeChanges = (
  c: SqliteConnection,
  t: Tables,
  changes: readonly Settlement[],
  written: Written,
): void => {
  if (changes.length === 0) return
  // What was put aside dead may have kept others waiting before; whether it did is found out by promoting.
  const putAside = new Set<string>()
  for (const { delivery, outcome, deadHoldsKey } of changes) {
    if (outcome.kind === 'dead' && !deadHoldsKey) putAside.add(delivery.id)
  }
  for (const [bytes, destination, key] of c.rows(CHANGE(t), [JSON.stringify(changes.map(changeJson))])) {
    const id = asId(bytes)
    written.ids.add(id)
    if (key !== null && putAside.has(id))
      written.keys.push({ destination: asText(destination), key: asText(key) })
  }
}

export const settle = (c: SqliteConnection, t: Tables, request: SettleRequest): SettleResult => {
  const { settlements } = request
  if (settlements.length === 0) return { lost: [], promoted: [] }
  const allowed = entitled(c, t, settlements)
  const written: Written = { ids: new Set(), keys: [] }
  writeDone(
    c,
    t,
    allowed.filter(({ outcome }) => outcome.kind === 'done'),
    written,
  )
  const changes = allowed.filter(({ outcome }) => outcome.kind !== 'done')
  writeChanges(c, t, changes, written)
  keepHistory(
    c,
    t,
    changes.filter(({ delivery }) => written.ids.has(delivery.id)),
    request,
  )
  const promoted = promote(c, t, written.keys, request.promoteLimit)
  const unsettled = settlements.filter(({ delivery }) => !written.ids.has(delivery.id))
  return { lost: findLost(c, t, new Set(allowed), unsettled), promoted }
}
