/**
 * Error numbers of the server and codes of Node's sockets → StoreError. Texts are never looked at, and never
 * passed on where they may quote rows, as "Duplicate entry '…'" does.
 */
import { ERROR_CODES, OutboxError, StoreError } from '../../core/errors.ts'
import {
  busy,
  CANCELLED,
  DEADLOCKED,
  GAVE_WAY,
  LOCK_TIMED_OUT,
  NO_PARTITIONS,
  REFUSED_ROW,
  refusedStatement,
  SOCKET_CODES,
  sentenceOf,
  socketCode,
  TOO_MANY_CONNECTIONS,
  type Translation,
  unavailable,
  unreachable,
} from '../sql/errors.ts'

interface DriverError {
  readonly errno?: unknown
  readonly code?: unknown
  readonly sqlState?: unknown
  readonly fatal?: unknown
  readonly message?: unknown
}

/** The server's number; null for everything that the server did not say. */
export const errorNumber = (error: unknown): number | null => {
  if (typeof error !== 'object' || error === null) return null
  const { errno, sqlState } = error as DriverError
  return typeof errno === 'number' && errno > 0 && typeof sqlState === 'string' ? errno : null
}

const DEADLOCK = 1213
const LOCK_TIMEOUT = 1205
/** MariaDB from 11.6 on: the row was changed since the transaction's snapshot. */
const RECORD_CHANGED = 1020
/** The table was made anew since the transaction's snapshot, such as when a partition was made. */
const DEFINITION_CHANGED = 1412
/** The same from a storage engine, which MariaDB hands on as it is where rows of one table are inserted into another. */
const DEFINITION_CHANGED_BELOW = 159
/** Group replication or Galera gave the transaction up while it committed. */
const LOST_CERTIFICATION = 3101

const CONFLICTS = new Set([
  DEADLOCK,
  LOCK_TIMEOUT,
  RECORD_CHANGED,
  DEFINITION_CHANGED,
  DEFINITION_CHANGED_BELOW,
])

/** Somebody was in the way; nothing happened, and the same statements may succeed at once. */
export const isConflict = (error: unknown): boolean => {
  const number = errorNumber(error)
  return number !== null && CONFLICTS.has(number)
}

export const isDuplicate = (error: unknown): boolean => errorNumber(error) === 1062

/** The server has rolled the whole transaction back, and not only the statement. */
export const endsTransaction = (error: unknown): boolean => {
  const number = errorNumber(error)
  return number === DEADLOCK || number === RECORD_CHANGED || number === LOST_CERTIFICATION
}

/** COMMIT answered that it did not; any other error of a COMMIT leaves open what happened. */
export const refusesCommit = (error: unknown): boolean =>
  endsTransaction(error) || [LOCK_TIMEOUT, 1290, 1792, 1836].includes(errorNumber(error) ?? 0)

/** Those of the driver besides. */
const CONNECTION_CODES: ReadonlySet<string> = new Set([
  ...SOCKET_CODES,
  'PROTOCOL_CONNECTION_LOST',
  'PROTOCOL_SEQUENCE_TIMEOUT',
  'PROTOCOL_ENQUEUE_AFTER_FATAL_ERROR',
])

/** Shutdown, a connection that was killed, or one that was idle for too long. */
const GONE = new Set([1053, 1077, 1079, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031])

/** Not the server to write to. */
const READ_ONLY_SERVER = new Set([1290, 1836])

/** The connection is of no use any more, or the server behind it is not the one to write to. */
export const isBroken = (error: unknown): boolean => {
  const number = errorNumber(error)
  if (number !== null && (GONE.has(number) || READ_ONLY_SERVER.has(number))) return true
  return (
    socketCode(error, CONNECTION_CODES) !== null ||
    (error instanceof Error && (error as DriverError).fatal === true)
  )
}

const MISSING: Translation = {
  code: ERROR_CODES.schemaBehind,
  transient: false,
  text: 'lacks tables or columns that this version needs. Migrate it first, and check the database and the option prefix.',
}

const READ_ONLY: Translation = {
  code: ERROR_CODES.storeReadOnly,
  transient: true,
  text: 'is read-only: a replica, or a server that was demoted. Point the store at the primary.',
}

const DAMAGED_ROW: Translation = {
  code: ERROR_CODES.conflict,
  transient: false,
  text: 'refused a row whose content is not what was sent. Check that the connection uses the character set utf8mb4.',
}

/** The transaction is still there, but it will never see what it needs of this table: only a new one does. */
const TABLE_CHANGED = busy(
  'has changed a table, such as by making a partition, since this transaction first read. Run the whole transaction again.',
)

const WRONG_PASSWORD = unavailable('refused the user name or password. Check the connection settings.', false)

const FORBIDDEN: Translation = {
  code: ERROR_CODES.storeReadOnly,
  transient: false,
  text: 'does not allow this to the user in use. docs/mysql.md lists what each role needs.',
  quotes: true,
}

const FULL = unavailable('has no room left: memory or disk.', true)

const TRANSLATIONS: Readonly<Record<number, Translation>> = {
  159: TABLE_CHANGED,
  1020: GAVE_WAY,
  1021: FULL,
  1037: FULL,
  1038: FULL,
  1040: TOO_MANY_CONNECTIONS,
  1041: FULL,
  1044: unavailable(
    'does not let this user into the database. Check the user and the name of the database.',
    false,
  ),
  1045: WRONG_PASSWORD,
  1049: unavailable('does not have the database that the connection settings name.', false),
  1054: MISSING,
  1062: REFUSED_ROW,
  1114: FULL,
  1129: unavailable('has blocked this host after too many errors. Run FLUSH HOSTS there.', false),
  1130: unavailable('does not let this host in. Check the host part of the user.', false),
  1142: FORBIDDEN,
  1143: FORBIDDEN,
  1146: MISSING,
  1153: refusedStatement('refused a packet as too large. Raise max_allowed_packet to 16 MiB or more.'),
  1203: unavailable(
    'has no connection left for this user. Raise max_user_connections, or lower the size of the pools.',
    true,
  ),
  1205: LOCK_TIMED_OUT,
  1213: DEADLOCKED,
  1226: unavailable(
    'has no connection left for this user. Raise its limit, or lower the size of the pools.',
    true,
  ),
  1227: FORBIDDEN,
  1290: READ_ONLY,
  1300: DAMAGED_ROW,
  1317: unavailable('was told to stop a statement.', true),
  1364: MISSING,
  1366: DAMAGED_ROW,
  1406: REFUSED_ROW,
  1412: TABLE_CHANGED,
  1505: NO_PARTITIONS,
  1665: unavailable('writes its binary log by statement. Set binlog_format to ROW or MIXED.', false),
  1698: WRONG_PASSWORD,
  1747: NO_PARTITIONS,
  1792: READ_ONLY,
  1836: READ_ONLY,
  3024: CANCELLED,
  3101: GAVE_WAY,
  3819: DAMAGED_ROW,
  4025: DAMAGED_ROW,
}

/** Of a second connection that the store's own statements left no room for. */
export const crowdedError = (place: string, connections: number): StoreError =>
  new StoreError(
    ERROR_CODES.storeBusy,
    `${place}: the ${connections} connections of the store were all in use. Try it again, or raise the option ownConnections.`,
    { transient: true, isCrowded: true },
  )

/**
 * The driver puts the whole statement, payloads included, into its errors, and the server quotes rows that it
 * refuses. Neither belongs into a log.
 */
const withoutContent = (error: Error, quotesRows: boolean): Error => {
  const { errno, code, sqlState } = error as DriverError
  if (quotesRows)
    return Object.assign(new Error(`${String(code)} (${String(errno)})`), { errno, code, sqlState })
  for (const name of ['sql', 'sqlMessage']) Reflect.deleteProperty(error, name)
  return error
}

/** The number alone, because the server's text may quote a row. */
const unknown = (number: number): Translation => refusedStatement(`refused a statement (error ${number}).`)

/**
 * Errors of our own pass unchanged, so that a caller may translate at every border; so do errors that no
 * database raised, because a mistake in a program must not look like an outage.
 */
export const storeErrorOf = (error: unknown, place: string): unknown => {
  if (error instanceof OutboxError) return error
  const number = errorNumber(error)
  if (number !== null && !GONE.has(number)) {
    const known = TRANSLATIONS[number] ?? unknown(number)
    return new StoreError(known.code, `${place} ${sentenceOf(known, error)}`, {
      cause: withoutContent(error as Error, known.code === ERROR_CODES.conflict),
      transient: known.transient,
      errno: number,
      ...(known.mayBeContent === true ? { mayBeContent: true } : {}),
    })
  }
  const socket = socketCode(error, CONNECTION_CODES)
  if (!isBroken(error)) return error
  return unreachable(error, place, socket)
}
