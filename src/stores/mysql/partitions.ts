/**
 * Partitions of `events` and `finished`: made ahead of time, dropped as a whole when nothing needs them any more.
 *
 * Whoever waits for a table makes everybody wait who comes after, so waits are short and tried again with growing
 * pauses. The server counts such waits in whole seconds; another connection ends ours sooner.
 *
 * A change locks its table and no other: publishers write events first and deliveries then, and a lock on both would
 * meet them halfway, which ends one of the two. What is checked under the lock sees everything committed before.
 *
 * Reads of our own wait for the lock like everybody's, with as many connections as there are. So whatever is done
 * beside it goes over a second connection that was had before.
 */
import { StoreError } from '../../core/errors.ts'
import type { PartitionReport, PartitionRequest } from '../../core/spi/index.ts'
import type { Tables } from '../sql/identifiers.ts'
import {
  ATTEMPTS_STEP,
  changePatiently,
  FASTER,
  IN_THE_WAY,
  MAX_MOVED,
  MAX_STEPS,
  PARTITIONED,
  type Partitioned,
  type Setback,
  STAYS,
  warnNotMade,
} from '../sql/partitioning.ts'
import type { MysqlDatabase, Row, Session } from './database.ts'
import type { PartitionPeriod } from './options.ts'
import { lowestIdAt, missingPeriods, type Period, periodNamed, TAIL } from './periods.ts'
import { asMs, asNumber, asText, earlier, NOW, one } from './statements/sql-text.ts'
import { addTotal } from './statements/totals.ts'

interface Partition extends Period {
  readonly of: Partitioned
  /** Where the one before it ends; the lowest one begins with the lowest id. */
  readonly lowId: string
  readonly highId: string
}

/** Interrupted while it waited, or waited for the whole second; and what a process that was faster leaves behind. */
const INTERRUPTED = 1317
const LOCK_TIMEOUT = 1205
const CHANGED_BEFORE = new Set([1507, 1508, 1517])

/** For a session that goes back to the others. */
const RELEASE = 'UNLOCK TABLES; SET SESSION lock_wait_timeout = DEFAULT, wait_timeout = DEFAULT'

const setbackOf = (error: unknown): Setback => {
  if (!(error instanceof StoreError)) return null
  if (error.detail.isCrowded === true) return 'crowded'
  const number = Number(error.detail.errno)
  if (CHANGED_BEFORE.has(number)) return 'faster'
  return number === INTERRUPTED || number === LOCK_TIMEOUT ? 'passing' : null
}

interface Change {
  readonly of: Partitioned
  readonly change: string
  /** Asked under the lock, which `session` has: null, or a reason to leave everything as it is. */
  readonly check: (session: Session, other: Session) => Promise<string | null>
}

const valuesLessThan = ({ name, endMs }: Period): string =>
  `PARTITION ${name} VALUES LESS THAN (X'${lowestIdAt(endMs)}')`

/** The clause with which a table is made; without a clock with its tail alone. */
export const partitionsClause = (period: PartitionPeriod, nowMs: number | null, untilMs: number): string => {
  const parts = nowMs === null ? [] : missingPeriods([], period, nowMs, untilMs).map(valuesLessThan)
  return `\nPARTITION BY RANGE COLUMNS (id) (\n  ${[...parts, `PARTITION ${TAIL} VALUES LESS THAN (MAXVALUE)`].join(',\n  ')}\n)`
}

const decode = (of: Partitioned, rows: readonly Row[]): readonly Partition[] => {
  const periods = rows
    .map(([name]) => periodNamed(asText(name)))
    .filter((period) => period !== null)
    .sort((a, b) => a.endMs - b.endMs)
  return periods.map((period, i) => ({
    ...period,
    of,
    lowId: lowestIdAt(periods[i - 1]?.endMs ?? 0),
    highId: lowestIdAt(period.endMs),
  }))
}

/** As the server reports it in the list of its connections. */
const WAITING = "STATE LIKE 'Waiting for table%lock'"

/** Only while it waits: whoever has the lock is left to finish. */
const interrupt = async (other: Session, connection: number): Promise<void> => {
  try {
    const waiting = await other.rows(
      `SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = ${connection} AND ${WAITING}`,
    )
    if (waiting.length > 0) await other.rows(`KILL QUERY ${connection}`)
  } catch {
    // Then the server's own second ends the wait.
  }
}

export class MysqlPartitions {
  readonly #db: MysqlDatabase
  readonly #tables: Tables

  constructor(db: MysqlDatabase, tables: Tables) {
    this.#db = db
    this.#tables = tables
  }

  async maintain(request: PartitionRequest): Promise<PartitionReport> {
    const [[[now] = []] = [], ...lists] = (
      await this.#db.script([one(`SELECT ${NOW}`), ...PARTITIONED.map((of) => one(this.#list(of)))])
    ).map(({ rows }) => rows)
    const nowMs = asMs(now)
    const existing = PARTITIONED.flatMap((of, i) => decode(of, lists[i] ?? []))
    const created: string[] = []
    for (const of of PARTITIONED) {
      const mine = existing.filter((partition) => partition.of === of)
      const missing = missingPeriods(mine, this.#db.options.period, nowMs, nowMs + request.lookAheadMs)
      for (const period of missing) {
        // Later ones can only be split off behind it.
        if (!(await this.#create(of, period, request.lockTimeoutMs))) break
        created.push(this.#nameOf(of, period))
      }
    }
    const dropped: string[] = []
    const kept: { name: string; reason: string }[] = []
    for (const partition of existing.filter(({ endMs }) => endMs <= nowMs - request.doneOlderThanMs)) {
      const name = this.#nameOf(partition.of, partition)
      const reason = await this.#drop(partition, request)
      if (reason === null) dropped.push(name)
      else kept.push({ name, reason })
    }
    return { created, dropped, kept }
  }

  #nameOf(of: Partitioned, { name }: Period): string {
    return `${this.#tables.prefix}${of}.${name}`
  }

  #list(of: Partitioned): string {
    return `SELECT PARTITION_NAME FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '${this.#tables.prefix}${of}' AND PARTITION_NAME IS NOT NULL`
  }

  async #isThere(of: Partitioned, { name }: Period): Promise<boolean> {
    return decode(of, await this.#db.rows(this.#list(of))).some((partition) => partition.name === name)
  }

  /** False: it was not made this time, and a warning says why unless another process made it. Its rows go to the tail in the meantime. */
  async #create(of: Partitioned, period: Period, lockTimeoutMs: number): Promise<boolean> {
    const table = this.#tables[of]
    const [[crowded] = []] = await this.#db.rows(
      `SELECT COUNT(*) > ${MAX_MOVED} FROM (SELECT 1 FROM ${table} PARTITION (${TAIL}) LIMIT ${MAX_MOVED + 1}) AS x`,
    )
    const split = `ALTER TABLE ${table} REORGANIZE PARTITION ${TAIL} INTO (${valuesLessThan(period)}, PARTITION ${TAIL} VALUES LESS THAN (MAXVALUE))`
    const reason =
      asNumber(crowded) === 1
        ? `more than ${MAX_MOVED} rows are in the tail already`
        : await this.#change({ of, change: split, check: async () => null }, lockTimeoutMs)
    if (reason === null) return true
    const isThere = reason === FASTER && (await this.#isThere(of, period))
    if (!isThere) warnNotMade(this.#db, this.#nameOf(of, period), reason === FASTER ? IN_THE_WAY : reason)
    return false
  }

  /** Null when it is gone, else why it stays. */
  async #drop(partition: Partition, request: PartitionRequest): Promise<string | null> {
    const t = this.#tables
    const { of, name } = partition
    const check = this.#check(partition, request.doneOlderThanMs)
    // Asked without a lock first: most that are kept are kept for long, and nobody should wait for that.
    const [[found] = []] = await this.#db.rows(`SELECT ${check}`)
    if (found !== null) return asText(found)
    if (of === 'finished' && (await this.#isUnreconciled(name))) return STAYS.unreconciled
    const totals = of === 'finished' ? await this.#totals(name) : []
    const asked = `SELECT ${check}`
    const reason = await this.#change(
      {
        of,
        change: `ALTER TABLE ${t[of]} DROP PARTITION ${name}`,
        check: async (session, other) => {
          // The locked table can be read where it is locked, and the others only elsewhere.
          const [[why] = []] = await (of === 'finished' ? session : other).rows(asked)
          return why === null ? null : asText(why)
        },
      },
      request.lockTimeoutMs,
    )
    if (reason !== null || of === 'events') return reason
    await this.#db.script(totals)
    await this.#removeAttempts(partition)
    return null
  }

  /** An expression: null, or the reason to keep the partition. */
  #check({ of, name, lowId, highId }: Partition, retentionMs: number): string {
    const t = this.#tables
    if (of === 'finished') {
      const recent = `finished_at > ${earlier(NOW, retentionMs)}`
      return `IF(EXISTS (SELECT 1 FROM ${t.finished} PARTITION (${name}) WHERE ${recent}), '${STAYS.recent}', NULL)`
    }
    const about = (alias: string): string =>
      `${alias}.event_id >= X'${lowId}' AND ${alias}.event_id < X'${highId}'`
    return `CASE WHEN EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE ${about('d')}) THEN '${STAYS.unfinished}'
  WHEN EXISTS (SELECT 1 FROM ${t.finished} AS f WHERE ${about('f')}) THEN '${STAYS.finished}' END`
  }

  /** Looks at every row, so it is not asked under the lock: what finishes from now on is recent. */
  async #isUnreconciled(name: string): Promise<boolean> {
    const t = this.#tables
    const [[found] = []] = await this.#db.rows(
      `SELECT EXISTS (SELECT 1 FROM ${t.finished} PARTITION (${name}) WHERE seq > (SELECT MIN(reconciled_to) FROM ${t.destinations}))`,
    )
    return asNumber(found) === 1
  }

  /**
   * What the running totals lose with the partition. Counted before the lock: whatever finishes from now on is
   * recent, and then the check under the lock keeps the partition.
   */
  async #totals(name: string) {
    const t = this.#tables
    const rows = await this.#db.rows(
      `SELECT destination, SUM(status = 1), SUM(status = 4) FROM ${t.finished} PARTITION (${name}) GROUP BY destination`,
    )
    return rows.map(([destination, done, discarded]) =>
      addTotal(t, asText(destination), -asNumber(done), -asNumber(discarded)),
    )
  }

  /** Null when it was done; a reason when the check found one, or when it has to wait for another time. */
  #change(plan: Change, lockTimeoutMs: number): Promise<string | null> {
    const change = () =>
      this.#db.twoSessions((session, other) => this.#locked(session, other, plan, lockTimeoutMs))
    return changePatiently(this.#db, change, setbackOf)
  }

  /** A process that is suspended in here keeps the table locked no longer than `wait_timeout`, and then changes nothing. */
  async #locked(
    session: Session,
    other: Session,
    { of, change, check }: Change,
    lockTimeoutMs: number,
  ): Promise<string | null> {
    const { logger, runtime } = this.#db.context
    const [[connection] = []] = await session.rows('SELECT CONNECTION_ID()')
    let interrupted = Promise.resolve()
    const cancel = runtime.schedule(lockTimeoutMs, () => {
      interrupted = interrupt(other, asNumber(connection))
    })
    try {
      await session.rows(
        `SET SESSION lock_wait_timeout = 1, wait_timeout = 2; LOCK TABLES ${this.#tables[of]} WRITE`,
      )
    } finally {
      cancel()
      // Later it would end a statement of whoever has the connection then.
      await interrupted
    }
    const reason = await check(session, other)
    if (reason === null) {
      await session.rows(change)
      logger.log('debug', 'the partitions of a table were changed', { statement: change })
    }
    await session.rows(RELEASE)
    return reason
  }

  /** Attempts have no partitions. Those of deliveries that are still there stay. */
  async #removeAttempts({ lowId, highId }: Partition): Promise<void> {
    const t = this.#tables
    for (let step = 0; step < MAX_STEPS; step++) {
      const [answer] = await this.#db.script([
        one(`DELETE a FROM ${t.attempts} AS a STRAIGHT_JOIN (
  SELECT b.delivery_id, b.attempt FROM ${t.attempts} AS b WHERE b.delivery_id >= X'${lowId}' AND b.delivery_id < X'${highId}'
    AND NOT EXISTS (SELECT 1 FROM ${t.deliveries} AS d WHERE d.id = b.delivery_id) LIMIT ${ATTEMPTS_STEP}
) AS o ON o.delivery_id = a.delivery_id AND o.attempt = a.attempt`),
      ])
      if ((answer?.affected ?? 0) < ATTEMPTS_STEP) return
    }
  }
}
