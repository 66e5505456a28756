/**
 * Stage 6: the outcomes of a whole flush in one round trip, however many deliveries there are. The worker's row is
 * locked by the first statement, so rights that hold there still hold in the last; nothing in between waits for us.
 *
 * A right is used up by the settle that names it: the token leaves the row and is kept as `settled_by`, so that a
 * repeated settle is recognised and a stale one finds nothing.
 */
import { ERROR_CODES, StoreError } from '../../../core/errors.ts'
import { type Right, uuidToHex } from '../../../core/model/index.ts'
import type { Settlement, SettleRequest, SettleResult } from '../../../core/spi/index.ts'
import { retryDelay } from '../../sql/failures.ts'
import type { Tables } from '../../sql/identifiers.ts'
import type { SqlStatement } from '../../sql/sql-executor.ts'
import type { Answer, MysqlDatabase } from '../database.ts'
import { literal } from '../script.ts'
import { failureOf, historyStatements } from './history.ts'
import { distinctKeys, type KeyOf, promotion } from './hold.ts'
import {
  asId,
  asNumber,
  asText,
  idList,
  jsonTable,
  KEY,
  lockWorkers,
  NOW,
  one,
  rowsById,
  TEXT,
  workerIsAlive,
} from './sql-text.ts'
import { addTotal } from './totals.ts'

/** Texts of failures that one packet may carry; with everything around them it stays far below any server's limit. */
const PACKET_CHARS = 1_000_000

/** Keys whose promotion turned out to be necessary are known after the first try; they hardly ever grow again. */
const MAX_TRIES = 5

const nameOf = (right: Right): string => (right.kind === 'lane' ? right.workerId : right.token)

const namedBy = ({ delivery }: Settlement): string => nameOf(delivery.right)

const idsOf = (settlements: readonly Settlement[]): string[] => settlements.map(({ delivery }) => delivery.id)

/** Rows of these settlements for which the right still holds. Dead ones are settled already. */
const entitled = (t: Tables, settlements: readonly Settlement[]): string => {
  const byWorker = new Map<string, string[]>()
  const pairs: string[] = []
  for (const { delivery } of settlements) {
    const { right, id } = delivery
    if (right.kind === 'lane') byWorker.set(right.workerId, [...(byWorker.get(right.workerId) ?? []), id])
    else pairs.push(`(X'${uuidToHex(id)}', ${literal(right.token)})`)
  }
  const isAll = pairs.length === 0 && byWorker.size === 1
  const rights = [...byWorker].map(([workerId, ids]) =>
    isAll ? workerIsAlive(t, workerId) : `(d.id IN (${idList(ids)}) AND ${workerIsAlive(t, workerId)})`,
  )
  if (pairs.length > 0) rights.push(`(d.id, d.token) IN (${pairs.join(', ')})`)
  return `d.id IN (${idList(idsOf(settlements))}) AND d.status <> 3 AND (${rights.join(' OR ')})`
}

/** Attempts only grow; those of most rows stay what they are. */
const attemptsOf = (settlements: readonly Settlement[]): string => {
  const spent = settlements.filter(({ attempts }) => attempts > 0)
  if (spent.length === 0) return 'd.attempts'
  const cases = spent.map(
    ({ delivery, attempts }) => `WHEN X'${uuidToHex(delivery.id)}' THEN ${Number(attempts)}`,
  )
  return `GREATEST(d.attempts, CASE d.id ${cases.join(' ')} ELSE 0 END)`
}

/** Of every statement that writes: it writes nothing while there are holders whose keys the packet does not know. */
const NOTHING_OPEN = ' AND @posthaste_open = 0'

const byDestination = (settlements: readonly Settlement[]): ReadonlyMap<string, readonly Settlement[]> => {
  const groups = new Map<string, Settlement[]>()
  for (const settlement of settlements) {
    const { destination } = settlement.delivery
    const group = groups.get(destination)
    if (group === undefined) groups.set(destination, [settlement])
    else group.push(settlement)
  }
  return groups
}

/**
 * The copy locks its rows, so that what is removed is what was copied: where rights are judged once more somebody may
 * have come in between, and the row would be in both tables. Right after the rows of a destination were copied,
 * ROW_COUNT says how many there were.
 */
const doneStatements = (
  t: Tables,
  done: readonly Settlement[],
  condition: string,
): readonly SqlStatement[] => {
  if (done.length === 0) return []
  const copies = [...byDestination(done)].flatMap(([destination, group]) => [
    one(`INSERT INTO ${t.finished} (id, event_id, seq, destination, run, lane, ${KEY}, status, attempts, suspicions, size, created_at, finished_at, settled_by)
SELECT d.id, d.event_id, d.seq, d.destination, d.run, d.lane, d.key, 1, ${attemptsOf(group)}, d.suspicions, d.size, d.created_at, ${NOW}, ${settledBy(group)}
FROM ${rowsById(t.deliveries, idsOf(group))} WHERE ${entitled(t, group)}${condition} FOR UPDATE`),
    addTotal(t, destination, 'ROW_COUNT()', 0),
  ])
  return [
    ...copies,
    one(`DELETE d FROM ${rowsById(t.deliveries, idsOf(done))} WHERE ${entitled(t, done)}${condition}`),
  ]
}

/** Tokens are in the rows; of lanes there is hardly ever more than one worker. */
const settledBy = (settlements: readonly Settlement[]): string => {
  const byWorker = new Map<string, string[]>()
  for (const { delivery } of settlements) {
    const { right, id } = delivery
    if (right.kind === 'lane') byWorker.set(right.workerId, [...(byWorker.get(right.workerId) ?? []), id])
  }
  const [first] = byWorker
  if (first === undefined) return 'd.token'
  if (byWorker.size === 1 && first[1].length === settlements.length) return literal(first[0])
  const cases = [...byWorker].map(
    ([workerId, ids]) => `WHEN d.id IN (${idList(ids)}) THEN ${literal(workerId)}`,
  )
  return `CASE ${cases.join(' ')} ELSE d.token END`
}

const KIND = { retry: 2, dead: 3, released: -1, done: null } as const

const changeRow = ({ delivery, outcome, attempts, deadHoldsKey, deadParked }: Settlement): unknown[] => [
  uuidToHex(delivery.id),
  nameOf(delivery.right),
  KIND[outcome.kind],
  attempts,
  outcome.kind === 'retry' ? retryDelay(outcome.delayMs) : 0,
  Number(deadHoldsKey),
  Number(deadParked),
]

/** Under a live hot claim it was to be had since it was stored. */
const RELEASED_AT = `IF(d.available_at > ${NOW}, d.created_at, d.available_at)`

/** Retry, dead and released together; `kind` is the new status, or -1 for a release. No assignment reads another. */
const changeStatements = (
  t: Tables,
  changes: readonly Settlement[],
  request: SettleRequest,
  condition: string,
): readonly SqlStatement[] => {
  if (changes.length === 0) return []
  const source = jsonTable(changes.map(changeRow), [
    'id CHAR(32)',
    `named ${TEXT(64)}`,
    'kind INT',
    'attempts INT',
    'delay_ms BIGINT',
    'holds INT',
    'parked INT',
  ])
  const delayed = `${NOW} + INTERVAL (j.delay_ms * 1000) MICROSECOND`
  return [
    one(`UPDATE ${source} STRAIGHT_JOIN ${t.deliveries} AS d ON d.id = UNHEX(j.id) SET
  d.status = IF(j.kind = -1, d.status, j.kind),
  d.attempts = IF(j.kind = -1, d.attempts, GREATEST(d.attempts, j.attempts)),
  d.available_at = CASE j.kind WHEN 2 THEN ${delayed} WHEN -1 THEN ${RELEASED_AT} ELSE ${NOW} END,
  d.holds_key = CASE j.kind WHEN -1 THEN d.holds_key WHEN 2 THEN d.key IS NOT NULL ELSE j.holds = 1 AND d.key IS NOT NULL END,
  d.parked = j.kind = 3 AND j.parked = 1 AND j.holds = 1 AND d.key IS NOT NULL, d.token = NULL, d.settled_by = j.named, d.settled_at = @posthaste_now
WHERE ${entitled(t, changes)}${condition}`),
    ...historyStatements(
      t,
      changes,
      request,
      namedBy,
      'd.settled_at = @posthaste_now AND d.settled_by = j.named',
    ),
  ]
}

interface Packet {
  readonly statements: readonly SqlStatement[]
  readonly read: (answers: readonly Answer[]) => Outcome
}

interface Outcome {
  /** Keys to be promoted that the packet did not know of; then it has changed nothing. */
  readonly unknown: readonly KeyOf[]
  readonly settled: number
  readonly alive: ReadonlySet<string>
  readonly promoted: readonly string[]
}

/** What was put aside dead may have kept others waiting as well. */
const mayFree = ({ delivery, outcome, deadHoldsKey }: Settlement): boolean =>
  delivery.event.key !== null && (outcome.kind === 'done' || (outcome.kind === 'dead' && !deadHoldsKey))

const packetOf = (
  t: Tables,
  settlements: readonly Settlement[],
  request: SettleRequest,
  keys: readonly KeyOf[],
): Packet => {
  const done = settlements.filter(({ outcome }) => outcome.kind === 'done')
  const changes = settlements.filter(({ outcome }) => outcome.kind !== 'done')
  const freeing = settlements.filter(mayFree)
  const workers = new Set<string>()
  for (const { delivery } of settlements)
    if (delivery.right.kind === 'lane') workers.add(delivery.right.workerId)
  const known =
    keys.length === 0
      ? ''
      : ` AND (d.destination, d.key) NOT IN (${keys.map(({ destination, key }) => `(${literal(destination)}, ${literal(key)})`).join(', ')})`
  const condition = freeing.length === 0 ? '' : NOTHING_OPEN
  const statements: SqlStatement[] = [one(`SET @posthaste_now = ${NOW}`)]
  const lockedAt = statements.length
  statements.push(lockWorkers(t, [...workers]))
  if (freeing.length > 0) {
    // Locks the rows in order, and asks which of them keep others waiting.
    const holding = `d.id IN (${idList(idsOf(freeing))}) AND d.holds_key = 1${known}`
    statements.push(
      one(
        `SELECT COALESCE(SUM(${holding}), 0) INTO @posthaste_open FROM ${rowsById(t.deliveries, idsOf(settlements))} WHERE ${entitled(t, settlements)} FOR UPDATE`,
      ),
      one(
        `SELECT DISTINCT d.destination, d.key FROM ${t.deliveries} AS d WHERE ${holding} AND @posthaste_open > 0`,
      ),
    )
  }
  const askedAt = statements.length - 1
  // Failures first: a row that becomes a retry holds its key before anything of it is promoted.
  const changing = changeStatements(t, changes, request, condition)
  const changedAt = statements.length
  statements.push(...changing)
  const moving = doneStatements(t, done, condition)
  const movedAt = statements.length
  statements.push(...moving)
  const promotedAt = statements.length
  statements.push(...keys.map((key) => promotion(t, key, request.promoteLimit, condition)))
  return {
    statements,
    read: (answers) => {
      const copied = moving.flatMap((_, i) =>
        i % 2 === 0 && i < moving.length - 1 ? [answers[movedAt + i]] : [],
      )
      const counted = changing.length === 0 ? 0 : (answers[changedAt]?.affected ?? 0)
      return {
        unknown:
          freeing.length === 0
            ? []
            : (answers[askedAt]?.rows ?? []).map(([destination, key]) => ({
                destination: asText(destination),
                key: asText(key),
              })),
        alive: new Set((answers[lockedAt]?.rows ?? []).map(([id]) => asText(id))),
        settled: copied.reduce((sum, answer) => sum + (answer?.affected ?? 0), counted),
        promoted: keys
          .filter((_, i) => (answers[promotedAt + i]?.affected ?? 0) > 0)
          .map(({ destination }) => destination),
      }
    },
  }
}

/** Repeating a settle finds its row settled by the same right in the same way. */
const isRepetition = ({ delivery, outcome }: Settlement, status: number, settledBy: unknown): boolean => {
  if (settledBy !== nameOf(delivery.right)) return false
  if (outcome.kind === 'done') return status === 1
  if (outcome.kind === 'dead') return status === 3
  return status !== 1 && status !== 4
}

/** Asked only when fewer rows were settled than were named; what was settled a moment ago looks like a repetition. */
const findLost = async (
  db: MysqlDatabase,
  t: Tables,
  settlements: readonly Settlement[],
  alive: ReadonlySet<string>,
): Promise<readonly string[]> => {
  const list = idList(idsOf(settlements))
  const found = await db.snapshot([
    // First, because it may be moved.
    one(`SELECT id, status, settled_by FROM ${t.finished} WHERE id IN (${list})`),
    one(`SELECT id, status, settled_by FROM ${t.deliveries} WHERE id IN (${list}) AND token IS NULL`),
  ])
  const rows = new Map(
    found
      .flatMap((answer) => answer.rows)
      .map(([id, status, by]) => [asId(id), { status: asNumber(status), by }]),
  )
  return settlements
    .filter((settlement) => {
      const { right, id } = settlement.delivery
      const row = rows.get(id)
      if (row === undefined || (right.kind === 'lane' && !alive.has(right.workerId))) return true
      return !isRepetition(settlement, row.status, row.by)
    })
    .map(({ delivery }) => delivery.id)
}

const settleSome = async (
  db: MysqlDatabase,
  t: Tables,
  settlements: readonly Settlement[],
  request: SettleRequest,
): Promise<SettleResult> => {
  let keys: readonly KeyOf[] = []
  for (let tries = 1; ; tries++) {
    const packet = packetOf(t, settlements, request, keys)
    const { unknown, settled, alive, promoted } = packet.read(await db.atomic(packet.statements))
    if (unknown.length === 0) {
      const lost = settled === settlements.length ? [] : await findLost(db, t, settlements, alive)
      return { lost, promoted }
    }
    if (tries >= MAX_TRIES) {
      throw new StoreError(
        ERROR_CODES.storeBusy,
        `${db.place}: more and more keys of one batch came to be waited for. Try it again.`,
        { transient: true },
      )
    }
    keys = distinctKeys([...keys, ...unknown])
  }
}

const textLength = (settlement: Settlement): number => {
  const failure = failureOf(settlement)
  return failure === null ? 0 : failure.message.length + (failure.stack?.length ?? 0)
}

/** A flush full of long failures would be too much for one packet. Failures go first, so that their keys are held. */
const parts = (settlements: readonly Settlement[]): readonly (readonly Settlement[])[] => {
  if (settlements.reduce((sum, settlement) => sum + textLength(settlement), 0) <= PACKET_CHARS)
    return [settlements]
  const rows: Settlement[][] = [[]]
  let chars = 0
  for (const settlement of settlements.filter((each) => failureOf(each) !== null)) {
    chars += textLength(settlement)
    if (chars > PACKET_CHARS) {
      rows.push([])
      chars = textLength(settlement)
    }
    rows.at(-1)?.push(settlement)
  }
  return [...rows, settlements.filter((each) => failureOf(each) === null)].filter((part) => part.length > 0)
}

export const settle = async (db: MysqlDatabase, t: Tables, request: SettleRequest): Promise<SettleResult> => {
  const distinct = [...new Map(request.settlements.map((each) => [each.delivery.id, each])).values()]
  const lost: string[] = []
  const promoted: string[] = []
  for (const part of distinct.length === 0 ? [] : parts(distinct)) {
    const result = await settleSome(db, t, part, request)
    lost.push(...result.lost)
    promoted.push(...result.promoted)
  }
  return { lost, promoted: [...new Set(promoted)] }
}
