/**
 * Stage 6: the outcomes of a whole flush in one round trip, or in two.
 *
 * A right is used up by the settle that names it: the token leaves the row and is kept as `settled_by`, so
 * that a repeated settle is recognised and a stale one finds nothing. Rights of a lane lock the worker's row in the
 * statement that uses them.
 *
 * Nearly always everything is done, holds no key and is still ours. One prepared statement then does it all and
 * counts. What it does not find is settled again, together with everything else, by a script that can do all there
 * is: other outcomes, rows that hold their key, and telling what was lost from what was settled before.
 */
import type { Right } from '../../../core/model/index.ts'
import type { Settlement, SettleRequest, SettleResult } from '../../../core/spi/index.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { PostgresDatabase, Row } from '../database.ts'
import type { PostgresTables } from '../tables.ts'
import { changeStatement } from './change.ts'
import { noteKeys, promotedDestinations, promoteNoted } from './hold.ts'
import { aliveWorker, asNumber, asText, idList, NOW, sqlText, textList } from './sql-text.ts'
import { addFinished } from './totals.ts'

const MOVED =
  'd.id, d.event_id, d.seq, d.destination, d.run, d.lane, d.key, d.attempts, d.suspicions, d.size, d.created_at, d.holds_key'

/**
 * Ids are compared with `= ANY`, and the token of each row is looked up by its id: a join with a list made the
 * planner read the whole table. $1 worker, $2 its ids, $3 ids settled by token, $4 their tokens, $5 attempts of
 * nearly all of them, $6 of the others or null.
 */
const doneText = (
  t: PostgresTables,
  condition: string,
): string => `WITH me AS MATERIALIZED (${aliveWorker(t, '$1')}),
by_lane AS (
  DELETE FROM ${t.deliveries} AS d
  WHERE d.id = ANY($2::uuid[]) AND d.status <> 3${condition} AND EXISTS (SELECT 1 FROM me)
  RETURNING ${MOVED}, $1 AS named
), by_token AS (
  DELETE FROM ${t.deliveries} AS d
  WHERE d.id = ANY($3::uuid[]) AND d.status <> 3${condition} AND d.token = ($4::jsonb ->> d.id::text)
  RETURNING ${MOVED}, d.token AS named
), gone AS (SELECT * FROM by_lane UNION ALL SELECT * FROM by_token), kept AS (
  INSERT INTO ${t.finished} (id, event_id, seq, destination, run, lane, key, status, attempts, suspicions, size, created_at, finished_at, settled_by)
  SELECT id, event_id, seq, destination, run, lane, key, 1, greatest(attempts, CASE WHEN $6::jsonb IS NULL THEN $5::int ELSE coalesce(($6::jsonb ->> id::text)::int, $5::int) END), suspicions,
    size, created_at, ${NOW}, named
  FROM gone
), totals AS (${addFinished(t, 'SELECT destination, count(*) AS done, 0 AS discarded FROM gone GROUP BY destination')})`

const DONE = sqlText((t) => `${doneText(t, ' AND NOT d.holds_key')} SELECT count(*) FROM gone`)

const DONE_OR_HOLDING = sqlText((t) => `${doneText(t, '')} ${noteKeys('gone WHERE holds_key')}`)

const ALIVE = sqlText((t) => `SELECT id FROM ${t.workers} WHERE id = ANY($1::text[]) AND NOT fenced`)

const SETTLED = sqlText(
  (t) => `SELECT id, status, settled_by FROM ${t.deliveries} WHERE id = ANY($1::uuid[]) AND token IS NULL
UNION ALL SELECT id, status, settled_by FROM ${t.finished} WHERE id = ANY($1::uuid[])`,
)

export const nameOf = (right: Right): string => (right.kind === 'lane' ? right.workerId : right.token)

const byLane = ({ delivery }: Settlement): boolean => delivery.right.kind === 'lane'

/** Written by hand: an object with a thousand ids for names is slow to make. */
const jsonOf = (values: readonly (readonly [id: string, value: string | number])[]): string | null =>
  values.length === 0
    ? null
    : `{${values.map(([id, value]) => `"${id}":${JSON.stringify(value)}`).join(',')}}`

const doneParams = (
  workerId: string | null,
  lane: readonly Settlement[],
  token: readonly Settlement[],
): SqlStatement['params'] => {
  const all = [...lane, ...token]
  const usual = all[0]?.attempts ?? 0
  const others = all.filter(({ attempts }) => attempts !== usual)
  return [
    workerId,
    idList(lane.map(({ delivery }) => delivery.id)),
    idList(token.map(({ delivery }) => delivery.id)),
    jsonOf(token.map(({ delivery }) => [delivery.id, nameOf(delivery.right)])),
    usual,
    jsonOf(others.map(({ delivery, attempts }) => [delivery.id, attempts])),
  ]
}

const workersOf = (settlements: readonly Settlement[]): readonly string[] => [
  ...new Set(settlements.filter(byLane).map(({ delivery }) => nameOf(delivery.right))),
]

/** A second settlement of the same delivery in one flush adds nothing. */
const unique = (settlements: readonly Settlement[]): readonly Settlement[] => [
  ...new Map(settlements.map((one) => [one.delivery.id, one])).values(),
]

const settleQuickly = async (
  db: PostgresDatabase,
  t: PostgresTables,
  settlements: readonly Settlement[],
): Promise<boolean> => {
  const [workerId = null, ...others] = workersOf(settlements)
  const isPlain = settlements.every(({ outcome, delivery }) => outcome.kind === 'done' && !delivery.holdsKey)
  if (!isPlain || others.length > 0) return false
  const token = settlements.filter((one) => !byLane(one))
  const params = doneParams(workerId, settlements.filter(byLane), token)
  const [[count] = []] = await db.rows(DONE(t), params)
  return asNumber(count) === settlements.length
}

/** Done ones per worker, those by token with the first of them; a statement has the right of one worker. */
const doneStatements = (t: PostgresTables, done: readonly Settlement[]): readonly SqlStatement[] => {
  if (done.length === 0) return []
  const token = done.filter((one) => !byLane(one))
  const workers = workersOf(done)
  return (workers.length === 0 ? [null] : workers).map((workerId, i) => {
    const mine = done.filter((one) => byLane(one) && nameOf(one.delivery.right) === workerId)
    return { sql: DONE_OR_HOLDING(t), params: doneParams(workerId, mine, i === 0 ? token : []) }
  })
}

/** Repeating a settle finds its row settled by the same right in the same way. */
const isSettled = ({ delivery, outcome }: Settlement, [, status, by]: Row): boolean => {
  if (by !== nameOf(delivery.right)) return false
  if (outcome.kind === 'done') return asNumber(status) === 1
  if (outcome.kind === 'dead') return asNumber(status) === 3
  return asNumber(status) !== 1 && asNumber(status) !== 4
}

const lostOf = (
  settlements: readonly Settlement[],
  alive: readonly Row[],
  found: readonly Row[],
): string[] => {
  const workers = new Set(alive.map(([id]) => asText(id)))
  const rows = new Map(found.map((row) => [asText(row[0]), row]))
  return settlements
    .filter((one) => {
      const row = rows.get(one.delivery.id)
      if (row === undefined || (byLane(one) && !workers.has(nameOf(one.delivery.right)))) return true
      return !isSettled(one, row)
    })
    .map(({ delivery }) => delivery.id)
}

export const settle = async (
  db: PostgresDatabase,
  t: PostgresTables,
  request: SettleRequest,
): Promise<SettleResult> => {
  if (request.settlements.length === 0 || (await settleQuickly(db, t, request.settlements)))
    return { lost: [], promoted: [] }
  const settlements = unique(request.settlements)
  const done = settlements.filter(({ outcome }) => outcome.kind === 'done')
  const changes = settlements.filter(({ outcome }) => outcome.kind !== 'done')
  const answers = await db.script([
    ...doneStatements(t, done),
    ...(changes.length === 0 ? [] : [changeStatement(t, changes, workersOf(changes), request)]),
    ...promoteNoted(t, request.promoteLimit),
    { sql: ALIVE(t), params: [textList(workersOf(settlements))] },
    { sql: SETTLED(t), params: [idList(settlements.map(({ delivery }) => delivery.id))] },
  ])
  const [promoted = [], alive = [], found = []] = answers.slice(-3)
  return { lost: lostOf(settlements, alive, found), promoted: promotedDestinations(promoted) }
}
