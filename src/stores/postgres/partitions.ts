/**
 * Partitions of `events` and `finished`: made ahead of time, dropped as a whole when nothing needs them any more.
 *
 * Whoever waits for a lock on a table makes everybody wait who comes after, so waits are short and tried again with
 * growing pauses. Each change is one script: the lock, the check in a new statement that sees everything committed
 * before the lock was given, and the change.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'
import type { PartitionReport, PartitionRequest } from '../../core/spi/index.ts'
import {
  ATTEMPTS_STEP,
  changePatiently,
  FASTER,
  FIRST_LOOK_AHEAD_MS,
  IN_THE_WAY,
  MAX_MOVED,
  MAX_STEPS,
  PARTITIONED,
  type Partitioned,
  type Setback,
  STAYS,
  warnNotMade,
} from '../sql/partitioning.ts'
import type { SqlStatement } from '../sql/sql-executor.ts'
import type { PostgresDatabase, Row, Session } from './database.ts'
import { type IdRange, lowestIdAt, missingRanges } from './periods.ts'
import { KEEPS_PAGES, tailOf } from './schema.ts'
import { notWhileCleaning, reconciled } from './statements/cleanup.ts'
import { asMs, asNumber, asText, isTrue, MS } from './statements/sql-text.ts'
import { addRemoved } from './statements/totals.ts'
import type { PostgresTables } from './tables.ts'

interface Partition {
  readonly of: Partitioned
  /** Unquoted, without the schema. */
  readonly table: string
  readonly low: string
  readonly high: string
}

/** Ours: a check under the lock found a reason to keep the partition. */
const KEPT = 'PH001'

const nameOf = (t: PostgresTables, of: Partitioned, range: IdRange): string =>
  `${t.prefix}${of}_${range.name}`

const quoted = (t: PostgresTables, table: string): string => `${t.schema}."${table}"`

const listText = (
  t: PostgresTables,
): string => `SELECT p.relname, c.relname, pg_get_expr(c.relpartbound, c.oid)
FROM pg_class AS p JOIN pg_namespace AS n ON n.oid = p.relnamespace
  JOIN pg_inherits AS i ON i.inhparent = p.oid JOIN pg_class AS c ON c.oid = i.inhrelid
WHERE n.nspname = '${t.names.schema}' AND p.relkind = 'p' AND p.relname IN ('${t.prefix}events', '${t.prefix}finished')`

const NOW_TEXT = `SELECT ${asMs('clock_timestamp()')}`

const BOUNDS = /FROM \('([0-9a-f-]{36})'\) TO \('([0-9a-f-]{36})'\)/

/** Without the tails, which have no bounds; the lowest ones first. */
const decode = (t: PostgresTables, rows: readonly Row[]): readonly Partition[] =>
  rows
    .flatMap(([parent, table, expression]): Partition[] => {
      const [, low, high] = BOUNDS.exec(asText(expression)) ?? []
      if (low === undefined || high === undefined) return []
      return [
        {
          of: asText(parent) === `${t.prefix}events` ? 'events' : 'finished',
          table: asText(table),
          low,
          high,
        },
      ]
    })
    .sort((a, b) => (a.low < b.low ? -1 : 1))

/** Too few for autovacuum to look, which would find that the partition is empty. */
const PADDING_ROWS = 48
const PADDING: Readonly<Record<Partitioned, string>> = {
  events: `(id, seq, occurred_at, created_at, version, routes_version, size, type, content_type, payload)
SELECT gen_random_uuid(), 0, now(), now(), 1, 0, 0, '', '', to_json(repeat('x', 1900))`,
  finished: `(id, event_id, seq, created_at, finished_at, size, run, attempts, suspicions, lane, status, destination, settled_by)
SELECT gen_random_uuid(), gen_random_uuid(), 0, now(), now(), 0, 1, 0, 0, 0, 1, '', repeat('x', 1900)`,
}

/** Ours: rows that nobody should see are taken back. */
const TAKEN_BACK = 'PH002'

/**
 * Some pages, as the migration gives them to tables without partitions: a plan that was made of an empty partition would
 * read it from end to end for every row, and go on doing so while it fills. The rows are not removed but taken back:
 * where all tables are published, none without a key may lose rows, and nobody should hear of these.
 */
const padText = (table: string, of: Partitioned): string => `DO $do$
BEGIN
  INSERT INTO ${table} ${PADDING[of]} FROM generate_series(1, ${PADDING_ROWS});
  RAISE SQLSTATE '${TAKEN_BACK}';
EXCEPTION WHEN SQLSTATE '${TAKEN_BACK}' THEN NULL;
END $do$`

/**
 * The table first, as everybody who plans a statement does. Cleaning goes to the tails first, so its end is waited for before,
 * when nobody has to wait for us.
 */
const lockStatements = (t: PostgresTables, of: Partitioned, partition: string): readonly SqlStatement[] => [
  notWhileCleaning(t),
  { sql: `LOCK TABLE ONLY ${t[of]}, ONLY ${partition} IN ACCESS EXCLUSIVE MODE`, params: [] },
]

/**
 * Rows of partitions that begin sooner may be on their way. Those are made with the table locked: the planner takes the list
 * of partitions before it waits for one of them, so a statement that waited at the tail would miss what was moved meanwhile.
 * Clocks of applications may be ahead.
 */
const SOON_MS = 86_400_000

/** Made apart and attached, because making it in place would lock out all readers and writers. */
const createTexts = (
  t: PostgresTables,
  of: Partitioned,
  range: IdRange,
  moves: boolean,
): readonly string[] => {
  const table = quoted(t, nameOf(t, of, range))
  const within = `id >= '${range.low}' AND id < '${range.high}'`
  return [
    `CREATE TABLE ${table} (LIKE ${t[of]} INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH (${KEEPS_PAGES})`,
    padText(table, of),
    ...(moves
      ? [
          `WITH moved AS (DELETE FROM ${tailOf(t, of)} WHERE ${within} RETURNING *) INSERT INTO ${table} SELECT * FROM moved`,
        ]
      : []),
    `ALTER TABLE ${t[of]} ATTACH PARTITION ${table} FOR VALUES FROM ('${range.low}') TO ('${range.high}')`,
  ]
}

/** In the transaction of the migration that made the tables; nobody else knows them yet. */
export const firstPartitions = async (
  session: Session,
  t: PostgresTables,
  period: 'day' | 'month',
): Promise<void> => {
  const [[now] = []] = await session.rows(NOW_TEXT)
  const existing = decode(t, await session.rows(listText(t)))
  for (const of of PARTITIONED) {
    const mine = existing.filter((one) => one.of === of)
    for (const range of missingRanges(period, asNumber(now), asNumber(now) + FIRST_LOOK_AHEAD_MS, mine)) {
      for (const sql of createTexts(t, of, range, false)) await session.rows(sql)
    }
  }
}

export class PostgresPartitions {
  readonly #db: PostgresDatabase
  readonly #tables: PostgresTables

  constructor(db: PostgresDatabase, tables: PostgresTables) {
    this.#db = db
    this.#tables = tables
  }

  async maintain(request: PartitionRequest): Promise<PartitionReport> {
    const t = this.#tables
    const [[[now] = []] = [], rows = []] = await this.#db.script([
      { sql: NOW_TEXT, params: [] },
      { sql: listText(t), params: [] },
    ])
    const existing = decode(t, rows)
    const soon = lowestIdAt(asNumber(now) + SOON_MS)
    const created: string[] = []
    for (const of of PARTITIONED) {
      const mine = existing.filter((one) => one.of === of)
      const until = asNumber(now) + request.lookAheadMs
      for (const range of missingRanges(this.#db.options.period, asNumber(now), until, mine)) {
        if (await this.#create(of, range, range.low < soon, request.lockTimeoutMs))
          created.push(nameOf(t, of, range))
      }
    }
    const before = lowestIdAt(asNumber(now) - request.doneOlderThanMs)
    const dropped: string[] = []
    const kept: { name: string; reason: string }[] = []
    for (const of of PARTITIONED) {
      for (const partition of existing.filter((one) => one.of === of && one.high <= before)) {
        const reason = await this.#drop(partition, request)
        if (reason === null) dropped.push(partition.table)
        else kept.push({ name: partition.table, reason })
      }
    }
    return { created, dropped, kept }
  }

  /** False: it was not made this time, and a warning says why unless another process made it. Its rows go to the tail in the meantime. */
  async #create(of: Partitioned, range: IdRange, isSoon: boolean, lockTimeoutMs: number): Promise<boolean> {
    const reason = await changePatiently(
      this.#db,
      () => this.#tryToCreate(of, range, isSoon, lockTimeoutMs),
      setbackOf(MADE),
    )
    if (reason === null) return true
    const isThere = reason === FASTER && (await this.#isThere(of, range))
    if (!isThere)
      warnNotMade(this.#db, nameOf(this.#tables, of, range), reason === FASTER ? IN_THE_WAY : reason)
    return false
  }

  async #isThere(of: Partitioned, { low, high }: IdRange): Promise<boolean> {
    const made = decode(this.#tables, await this.#db.rows(listText(this.#tables)))
    return made.some((one) => one.of === of && one.low === low && one.high === high)
  }

  /** Counts anew each time: what was in the way may have been a row of this partition. */
  async #tryToCreate(
    of: Partitioned,
    range: IdRange,
    isSoon: boolean,
    lockTimeoutMs: number,
  ): Promise<string | null> {
    const t = this.#tables
    const tail = tailOf(t, of)
    const [[count] = []] = await this.#db.rows(
      `SELECT count(*) FROM (SELECT 1 FROM ${tail} WHERE id >= $1::uuid AND id < $2::uuid LIMIT ${MAX_MOVED + 1}) AS x`,
      [range.low, range.high],
    )
    const inTail = asNumber(count)
    if (inTail > MAX_MOVED) return `more than ${MAX_MOVED} of its rows are in the tail already`
    // Without the lock nothing is moved: a row that comes meanwhile refuses the partition, and is counted the next time.
    const locks = isSoon || inTail > 0
    const texts = createTexts(t, of, range, locks).map((sql) => ({ sql, params: [] }))
    return await this.#run([...(locks ? lockStatements(t, of, tail) : []), ...texts], lockTimeoutMs)
  }

  /** Null when it is gone, else why it stays. */
  async #drop(partition: Partition, request: PartitionRequest): Promise<string | null> {
    const t = this.#tables
    const check = this.#check(partition, request.doneOlderThanMs)
    // Asked without a lock first: most that are kept are kept for long, and nobody should wait for that.
    const [[found] = []] = await this.#db.rows(`SELECT ${check}`)
    if (found !== null) return asText(found)
    if (partition.of === 'finished' && (await this.#isUnreconciled(partition))) return STAYS.unreconciled
    const totals = await this.#totals(partition)
    const table = quoted(t, partition.table)
    const statements = [
      ...lockStatements(t, partition.of, table),
      { sql: dropText(check, table), params: [] },
      ...totals,
    ]
    const reason = await changePatiently(
      this.#db,
      () => this.#run(statements, request.lockTimeoutMs),
      setbackOf(DROPPED),
    )
    if (reason === null && partition.of === 'finished') await this.#removeAttempts(partition)
    return reason
  }

  /** An expression: null, or the reason to keep the partition. */
  #check({ of, table, low, high }: Partition, retentionMs: number): string {
    const t = this.#tables
    const about = `event_id >= '${low}' AND event_id < '${high}'`
    if (of === 'finished') {
      const recent = `finished_at > clock_timestamp() - ${retentionMs}::float8 * ${MS}`
      return `CASE WHEN EXISTS (SELECT 1 FROM ${quoted(t, table)} WHERE ${recent}) THEN '${STAYS.recent}' END`
    }
    return `CASE WHEN EXISTS (SELECT 1 FROM ${t.deliveries} WHERE ${about}) THEN '${STAYS.unfinished}'
  WHEN EXISTS (SELECT 1 FROM ${t.finished} WHERE ${about}) THEN '${STAYS.finished}' END`
  }

  /** Looks at every row, so it is not asked under the lock: what finishes from now on is recent. */
  async #isUnreconciled({ table }: Partition): Promise<boolean> {
    const t = this.#tables
    const [[found] = []] = await this.#db.rows(
      `SELECT EXISTS (SELECT 1 FROM ${quoted(t, table)} WHERE seq > ${reconciled(t)})`,
    )
    return isTrue(found)
  }

  /**
   * What the running totals lose with the partition. Counted before the lock: whatever finishes from now on is
   * recent, and then the check under the lock keeps the partition.
   */
  async #totals({ of, table }: Partition): Promise<readonly SqlStatement[]> {
    if (of === 'events') return []
    const rows = await this.#db.rows(
      `SELECT destination, count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 4) FROM ${quoted(this.#tables, table)} GROUP BY destination`,
    )
    if (rows.length === 0) return []
    const less = rows.map(([destination, done, discarded]) => ({
      destination: asText(destination),
      done: -asNumber(done),
      discarded: -asNumber(discarded),
    }))
    const from =
      'SELECT destination, done, discarded FROM json_to_recordset($1::json) AS r(destination text, done bigint, discarded bigint)'
    return [{ sql: addRemoved(this.#tables, from), params: [JSON.stringify(less)] }]
  }

  /** All of them or none: null, or the reason that the check found. */
  async #run(statements: readonly SqlStatement[], lockTimeoutMs: number): Promise<string | null> {
    const timeout = { sql: `SET LOCAL lock_timeout = ${Math.max(1, Math.floor(lockTimeoutMs))}`, params: [] }
    try {
      await this.#db.scriptOnce([timeout, ...statements])
      return null
    } catch (error) {
      if (error instanceof StoreError && error.detail.sqlState === KEPT) return (error.cause as Error).message
      throw error
    }
  }

  /** Attempts have no partitions. Those of deliveries that are still there stay. */
  async #removeAttempts({ low, high }: Partition): Promise<void> {
    const t = this.#tables
    const sql = `DELETE FROM ${t.attempts} WHERE (delivery_id, attempt) IN (
  SELECT a.delivery_id, a.attempt FROM ${t.attempts} AS a WHERE a.delivery_id >= $1::uuid AND a.delivery_id < $2::uuid
    AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.id = a.delivery_id) LIMIT ${ATTEMPTS_STEP}) RETURNING 1`
    for (let step = 0; step < MAX_STEPS; step++) {
      if ((await this.#db.rows(sql, [low, high])).length < ATTEMPTS_STEP) return
    }
  }
}

/** What says that somebody else has made it, or dropped it, at the same time; 23505, when that was committed a moment ago. */
const MADE: readonly string[] = ['42P07', '23505']
const DROPPED: readonly string[] = ['42P01']

const setbackOf =
  (faster: readonly string[]) =>
  (error: unknown): Setback => {
    if (!(error instanceof StoreError)) return null
    const { sqlState } = error.detail
    if (faster.includes(String(sqlState))) return 'faster'
    // 23514: rows of its time came into the tail after they were counted or moved.
    return error.code === ERROR_CODES.storeBusy || sqlState === '23514' ? 'passing' : null
  }

/** The check is a new statement, so it sees whatever was committed before the lock was given. */
const dropText = (check: string, table: string): string => `DO $do$
DECLARE reason text;
BEGIN
  SELECT ${check} INTO reason;
  IF reason IS NOT NULL THEN RAISE EXCEPTION '%', reason USING ERRCODE = '${KEPT}'; END IF;
  DROP TABLE ${table};
END $do$`
