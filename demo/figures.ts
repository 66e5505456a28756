/**
 * The figures, computed from nothing but the database and calls.ndjson, so that anybody can compute them again.
 * The database's own tables are the truth about what was committed and settled, the ledger about what was called.
 */
import { loadDriver } from '../src/stores/sqlite/drivers.ts'
import { type Call, readCalls } from './calls.ts'

export interface Figures {
  /** Events committed. */
  readonly published: number
  /** Distinct (event, destination) that ended done. */
  readonly delivered: number
  /** Calls that succeeded, those that came twice included. */
  readonly calls: number
  /** Committed (event, destination) that are neither done nor dead in the end. */
  readonly lost: number
  /** Successful calls beyond the first of an (event, destination, run). */
  readonly duplicates: number
  /** (event, destination) that are dead in the end, for an operator to see. */
  readonly dead: number
  /** Runs that died on the way, redriven ones included. */
  readonly died: number
  /** Runs that an operator's redrive began. */
  readonly redriven: number
  /** First attempts taken hot ÷ first attempts, both without those that an injected fault touched. */
  readonly hotShare: number
  readonly latencyMsP50: number
  readonly latencyMsP99: number
  /** Calls for events that were never committed. */
  readonly ghosts: number
  /** Attempts spent on top of the first by deliveries to the mailer, whose only trouble was an outage. */
  readonly outageAttempts: number
  readonly failedCalls: number
}

export interface Files {
  readonly database: string
  readonly calls: string
}

const EXPECTED = `SELECT lower(hex(e.id)) AS event, d.name AS destination FROM outbox_events e JOIN outbox_destinations d
  ON EXISTS (SELECT 1 FROM json_each(d.patterns) p WHERE p.value = e.type)`

const DONE =
  'SELECT DISTINCT lower(hex(event_id)) AS event, destination FROM outbox_finished WHERE status = 1'
const DEAD =
  'SELECT DISTINCT lower(hex(event_id)) AS event, destination FROM outbox_deliveries WHERE status = 3'
const DONE_RUNS =
  'SELECT lower(hex(event_id)) AS event, destination, run FROM outbox_finished WHERE status = 1'
const COUNTS = `SELECT (SELECT count(*) FROM outbox_events) AS published,
  (SELECT count(*) FROM outbox_finished WHERE status = 4) + (SELECT count(*) FROM outbox_deliveries WHERE status = 3) AS died,
  (SELECT count(*) FROM outbox_finished WHERE run > 1) + (SELECT count(*) FROM outbox_deliveries WHERE run > 1) AS redriven,
  (SELECT coalesce(sum(attempts - 1), 0) FROM outbox_finished WHERE destination = 'mailer' AND status = 1) AS outageAttempts`

interface Pair {
  readonly event: string
  readonly destination: string
  readonly run?: number
}

const nameOf = ({ event, destination, run }: Pair): string =>
  run === undefined ? `${event} ${destination}` : `${event} ${destination} ${run}`

const hexOf = (eventId: string): string => eventId.replaceAll('-', '')

const runOf = (call: Call): string =>
  nameOf({ event: hexOf(call.eventId), destination: call.destination, run: call.run })

/** All reads in one transaction, so that they speak of one moment. */
const inSnapshot = async <T>(
  file: string,
  work: (query: (sql: string) => readonly unknown[]) => T,
): Promise<T> => {
  const { open: Database } = await loadDriver(null)
  const database = new Database(file)
  try {
    database.exec('PRAGMA busy_timeout = 5000')
    database.exec('BEGIN')
    return work((sql) => database.prepare(sql).all())
  } finally {
    database.close()
  }
}

export const computeFigures = async ({ database, calls: file }: Files): Promise<Figures> => {
  const calls = readCalls(file)
  return await inSnapshot(database, (query) => {
    const pairs = (sql: string): Set<string> => new Set((query(sql) as Pair[]).map(nameOf))
    const expected = pairs(EXPECTED)
    const done = pairs(DONE)
    const dead = pairs(DEAD)
    const events = new Set(
      (query('SELECT lower(hex(id)) AS event FROM outbox_events') as Pair[]).map(({ event }) => event),
    )
    const [counts] = query(COUNTS) as {
      published: number
      died: number
      redriven: number
      outageAttempts: number
    }[]
    return {
      published: counts?.published ?? 0,
      delivered: done.size,
      calls: calls.filter(({ ok }) => ok).length,
      lost: [...expected].filter((pair) => !done.has(pair) && !dead.has(pair)).length,
      duplicates: countDuplicates(calls),
      dead: dead.size,
      died: counts?.died ?? 0,
      redriven: counts?.redriven ?? 0,
      ...hotPath(calls),
      ghosts: calls.filter(({ eventId }) => !events.has(hexOf(eventId))).length,
      outageAttempts: counts?.outageAttempts ?? 0,
      failedCalls: calls.filter(({ ok }) => !ok).length,
    }
  })
}

const countDuplicates = (calls: readonly Call[]): number => {
  const successes = calls.filter(({ ok }) => ok).map(runOf)
  return successes.length - new Set(successes).size
}

const hotPath = (calls: readonly Call[]): Pick<Figures, 'hotShare' | 'latencyMsP50' | 'latencyMsP99'> => {
  const first = new Map<string, Call>()
  for (const call of calls) {
    const pair = `${call.eventId} ${call.destination}`
    if (!first.has(pair)) first.set(pair, call)
  }
  const firsts = [...first.values()]
  const untouched = firsts.filter(({ fault }) => fault === null)
  const hot = untouched.filter(({ path }) => path === 'hot')
  const latencies = firsts.flatMap(({ path, latencyMs }) =>
    path === 'hot' && latencyMs !== null ? [latencyMs] : [],
  )
  latencies.sort((a, b) => a - b)
  return {
    hotShare: untouched.length === 0 ? 0 : Number((hot.length / untouched.length).toFixed(4)),
    latencyMsP50: percentile(latencies, 0.5),
    latencyMsP99: percentile(latencies, 0.99),
  }
}

/** Nearest rank: the smallest value that at least this share of all is not above. */
export const percentile = (sorted: readonly number[], share: number): number =>
  sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0

/** Called well but not settled as done: what a killed process had in its hands. At most these may come twice. */
export const countInFlight = async ({ database, calls }: Files): Promise<number> => {
  const done = await inSnapshot(database, (query) => new Set((query(DONE_RUNS) as Pair[]).map(nameOf)))
  const called = new Set(
    readCalls(calls)
      .filter(({ ok }) => ok)
      .map(runOf),
  )
  return [...called].filter((run) => !done.has(run)).length
}
