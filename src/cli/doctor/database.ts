/** Checks of the database itself; what one of them cannot tell is said, not hidden. */
import { formatDuration } from '../../config/duration.ts'
import type { LoadedOutbox } from '../../config/load-config.ts'
import { ERROR_CODES, OutboxError } from '../../core/errors.ts'
import type { OutboxHost } from '../../core/host.ts'
import { compareLayout } from '../layout.ts'
import { ask, declaredIndexes, tableName } from '../probe.ts'
import { type Finding, ok, problem, skipped, warning } from './finding.ts'
import { checkLayout } from './layout.ts'

const SKEW_MS = 1_000
const LONG_SECONDS = 300
/** Dead rows that vacuum has not taken away yet: more than this, and more than live ones. */
const BLOAT_ROWS = 100_000

const NOW_SQL: Readonly<Record<string, string>> = {
  postgres: 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms',
  mysql: 'SELECT UNIX_TIMESTAMP(SYSDATE(6)) * 1000 AS ms',
  sqlite: "SELECT unixepoch('subsec') * 1000 AS ms",
}

const checkClock = async ({ host }: LoadedOutbox): Promise<Finding> => {
  const sql = NOW_SQL[host.store.name]
  if (sql === undefined) return skipped('clock', `${host.store.name} has no clock of its own`)
  const before = Date.now()
  const [row] = await ask(host, sql)
  const after = Date.now()
  const skew = Number(row?.ms) - (before + after) / 2
  const slack = (after - before) / 2
  const text = `${Math.round(Math.abs(skew))} ms ${skew < 0 ? 'behind' : 'ahead of'} this machine`
  if (Math.abs(skew) - slack <= SKEW_MS) return ok('clock', `the database is ${text}`)
  return warning(
    'clock',
    `the database is ${text}`,
    'synchronise both by NTP; leases and delays are the database’s and go on working, times in logs do not compare',
  )
}

/** Of the schema of our tables alone: another one may have indexes of the same names. One that was left half made is none. */
const INDEX_SQL: Readonly<Record<string, string>> = {
  postgres: `SELECT i.relname AS name FROM pg_index AS x JOIN pg_class AS i ON i.oid = x.indexrelid JOIN pg_class AS t ON t.oid = to_regclass($1)
WHERE x.indisvalid AND i.relnamespace = t.relnamespace`,
  mysql:
    "SELECT CONCAT(TABLE_NAME, '.', INDEX_NAME) AS name FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE()",
  sqlite: "SELECT name FROM sqlite_master WHERE type = 'index'",
}

const unquoted = (name: string): string => name.replaceAll(/["`]/g, '')

/** All of ours have a primary key. */
const isSeen = (table: string, indexes: ReadonlySet<string>): boolean =>
  [...indexes].some((name) => name.startsWith(`${table.toLowerCase()}.`))

/** MySQL shows a user only the tables that it has rights on, and says of others that they are denied, be they there or not. */
const lookAt = async (host: OutboxHost, table: string): Promise<'bare' | 'gone' | 'hidden'> => {
  try {
    await ask(host, `SELECT 1 FROM ${table} LIMIT 0`)
    return 'bare'
  } catch (error) {
    const code = error instanceof OutboxError ? error.code : null
    if (code === ERROR_CODES.schemaBehind) return 'gone'
    // Elsewhere the indexes of a table that may not be read are seen all the same.
    if (code === ERROR_CODES.storeReadOnly) return host.store.name === 'mysql' ? 'hidden' : 'bare'
    throw error
  }
}

const checkIndexes = async ({ host, outbox }: LoadedOutbox): Promise<Finding> => {
  if ((await outbox.schema.status()).current === 0) return ok('indexes', 'come with the tables')
  // Which of them there must be depends on it, and those of the other one would be of no use.
  const { given, unlike } = await compareLayout(host)
  if (given === 'partitioned' && unlike.length > 0)
    return skipped('indexes', 'not compared before the layout is right')
  const params = host.store.name === 'postgres' ? [tableName(host, 'deliveries') ?? ''] : []
  const rows = await ask(host, INDEX_SQL[host.store.name] ?? '', params)
  // Servers on some file systems keep the names of tables in small letters.
  const there = new Set(rows.map(({ name }) => String(name).toLowerCase()))
  const declared = declaredIndexes(host)
  const absent = declared.filter(({ name }) => !there.has(name.toLowerCase()))
  if (absent.length === 0) return ok('indexes', `all ${declared.length} are there`)
  const unseen = new Set(
    absent.flatMap(({ table, on }) => (table !== null && isSeen(table, there) ? [] : [on])),
  )
  const [gone, hidden]: [string[], string[]] = [[], []]
  for (const table of unseen) {
    const sight = await lookAt(host, table)
    if (sight === 'gone') gone.push(table)
    if (sight === 'hidden') hidden.push(table)
  }
  if (gone.length > 0)
    return problem(
      'indexes',
      `there is no table ${gone.map(unquoted).join(', ')}, though it was migrated`,
      'restore it, or make it empty with its statement of posthaste migrate --sql',
    )
  const missing = absent.filter(({ on }) => !hidden.includes(on))
  if (missing.length === 0)
    return skipped(
      'indexes',
      `of ${hidden.map(unquoted).join(', ')} are hidden from this user; all others are there`,
    )
  return problem(
    'indexes',
    `missing: ${missing.map(({ name }) => name).join(', ')}`,
    `make them while there is little to do: ${missing.map(({ make }) => make).join(' ')}`,
  )
}

const ISOLATION_SQL: Readonly<Record<string, string>> = {
  postgres: `SELECT current_setting('default_transaction_isolation') AS "Value"`,
  // Before 11.1 MariaDB knows it by the second name only, and an unknown one is an error where it is selected.
  mysql: "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')",
}

const checkIsolation = async ({ host }: LoadedOutbox): Promise<Finding> => {
  if (host.store.name === 'sqlite') return ok('isolation', 'SQLite has one writer at a time')
  const level = String((await ask(host, ISOLATION_SQL[host.store.name] ?? ''))[0]?.Value)
    .toLowerCase()
    .replaceAll('-', ' ')
  if (level === 'serializable')
    return warning(
      'isolation',
      `${level} by default`,
      'your transactions may be refused and must be run again; the store retries its own',
    )
  return ok('isolation', `${level} by default; the store’s own statements say what they need`)
}

const LONG_SQL: Readonly<Record<string, string>> = {
  postgres: `SELECT count(*) AS n, coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) AS seconds
FROM pg_stat_activity WHERE datname = current_database() AND xact_start < clock_timestamp() - interval '${LONG_SECONDS} seconds'`,
  mysql: `SELECT count(*) AS n, coalesce(max(TIMESTAMPDIFF(SECOND, trx_started, NOW())), 0) AS seconds
FROM information_schema.innodb_trx WHERE trx_started < NOW() - INTERVAL ${LONG_SECONDS} SECOND`,
}

const checkLong = async ({ host }: LoadedOutbox): Promise<Finding> => {
  const sql = LONG_SQL[host.store.name]
  if (sql === undefined) return skipped('long transactions', `${host.store.name} does not tell`)
  const [row] = await ask(host, sql)
  const [amount, seconds] = [Number(row?.n), Number(row?.seconds)]
  if (amount === 0)
    return ok('long transactions', `none is older than ${formatDuration(LONG_SECONDS * 1_000)}`)
  return warning(
    'long transactions',
    `${amount}, the oldest for ${formatDuration(seconds * 1_000)}`,
    'find and end them: they keep cleanup and vacuum from working, and make reads slower',
  )
}

/** Our three large tables and, where they have some, their partitions; the rows are in those then. */
const BLOAT_SQL = `WITH ours AS (SELECT to_regclass(name)::oid AS id FROM unnest(ARRAY[$1::text, $2::text, $3::text]) AS name)
SELECT relname AS name, n_live_tup AS live, n_dead_tup AS dead FROM pg_stat_user_tables
WHERE relid IN (SELECT id FROM ours UNION ALL SELECT inhrelid FROM pg_inherits WHERE inhparent IN (SELECT id FROM ours))
ORDER BY n_dead_tup DESC`

const checkBloat = async ({ host }: LoadedOutbox): Promise<Finding> => {
  if (host.store.name !== 'postgres') return skipped('bloat', `not looked at on ${host.store.name}`)
  const names = ['deliveries', 'events', 'finished'].map((table) => tableName(host, table) ?? '')
  const tables = (await ask(host, BLOAT_SQL, names)).map(({ name, live, dead }) => ({
    name: String(name),
    live: Number(live),
    dead: Number(dead),
  }))
  const bloated = tables.filter(({ live, dead }) => dead >= BLOAT_ROWS && dead >= live)
  const all = tables.reduce((sum, { dead }) => sum + dead, 0)
  if (bloated.length === 0) return ok('bloat', `${all} dead rows in ${tables.length} tables and partitions`)
  return warning(
    'bloat',
    bloated.map(({ name, live, dead }) => `${dead} dead rows beside ${live} live ones in ${name}`).join(', '),
    `VACUUM ${bloated.map(({ name }) => name).join(', ')}, and look for long transactions`,
  )
}

/** Behind a pooler the server sees another port than the one in the address. */
const checkPooler = async ({ host, url }: LoadedOutbox): Promise<Finding> => {
  if (host.store.name !== 'postgres') return skipped('pooler', `not looked at on ${host.store.name}`)
  if (url === null || !URL.canParse(url.value)) return skipped('pooler', 'the address is in the code')
  const said = new URL(url.value).port || '5432'
  const [row] = await ask(host, 'SELECT inet_server_port() AS port')
  const real = row?.port === null || row === undefined ? said : String(row.port)
  if (real === said) return ok('pooler', 'none is in between')
  return ok(
    'pooler',
    `one is in between (port ${said}, server ${real}): transaction mode works, with listen to the server itself for wake-ups`,
  )
}

const CHECKS: readonly (readonly [string, (loaded: LoadedOutbox) => Promise<Finding>])[] = [
  ['clock', checkClock],
  ['layout', checkLayout],
  ['indexes', checkIndexes],
  ['isolation', checkIsolation],
  ['long transactions', checkLong],
  ['bloat', checkBloat],
  ['pooler', checkPooler],
]

const isSql = ({ store }: OutboxHost): boolean => ['postgres', 'mysql', 'sqlite'].includes(store.name)

export const checkDatabase = async (loaded: LoadedOutbox): Promise<readonly Finding[]> => {
  if (!isSql(loaded.host)) return []
  const findings: Finding[] = []
  for (const [name, check] of CHECKS) {
    try {
      findings.push(await check(loaded))
    } catch (error) {
      findings.push(skipped(name, `could not be asked: ${(error as Error).message}`))
    }
  }
  return findings
}
