/**
 * SQLSTATE codes of the server and codes of Node's sockets → StoreError. Texts are looked at in one place only:
 * `pg` gives a connection that was cut no code at all.
 *
 * A server's `detail` may quote rows, so it never becomes part of a message.
 */
import { ERROR_CODES, OutboxError, StoreError } from '../../core/errors.ts'
import {
  CANCELLED,
  DEADLOCKED,
  GAVE_WAY,
  LOCK_TIMED_OUT,
  REFUSED_ROW,
  refusedStatement,
  sentenceOf,
  socketCode,
  TOO_MANY_CONNECTIONS,
  type Translation,
  unavailable,
  unreachable,
} from '../sql/errors.ts'

interface DriverError {
  readonly code?: unknown
  readonly severity?: unknown
  readonly message?: unknown
  readonly constraint?: unknown
}

const SQLSTATE = /^[0-9A-Z]{5}$/

/** The server's code; null for everything that the server did not say. */
export const sqlState = (error: unknown): string | null => {
  if (typeof error !== 'object' || error === null) return null
  const { code, severity } = error as DriverError
  return typeof code === 'string' && SQLSTATE.test(code) && severity !== undefined ? code : null
}

/** Somebody was in the way; nothing happened, and the same statement may succeed at once. */
export const isConflict = (error: unknown): boolean => {
  const state = sqlState(error)
  return state === '40P01' || state === '40001' || state === '55P03'
}

/** Another connection, or a pooler that does not carry prepared statements over. */
export const isLostStatement = (error: unknown): boolean => {
  const state = sqlState(error)
  return state === '26000' || state === '42P05'
}

/** The driver's own errors have no code: a connection that ended, an answer that did not come, a pool that is full. */
const DRIVER_TEXTS =
  /^(Connection terminated|Received unexpected|Client has encountered a connection error|Client was closed|Query read timeout|timeout exceeded when trying to connect|timeout expired|Cannot use a pool after calling end|PGlite is clos)/

/** Of a pool whose places are all taken, also by connections that are only being made. */
const NONE_IN_TIME = 'timeout exceeded when trying to connect'
const NONE_MADE = 'Connection terminated due to connection timeout'

const isDriverText = (error: unknown): boolean =>
  error instanceof Error && sqlState(error) === null && DRIVER_TEXTS.test(error.message)

const hasCode = (error: unknown, codes: RegExp): boolean => {
  const { code } = (error ?? {}) as DriverError
  return typeof code === 'string' && codes.test(code)
}

const ENCRYPTION = /^(ERR_(TLS|SSL)_|EPROTO$)/

/**
 * The server has ended the connection with it. Of a transaction that took too long it is the code that says so, because the
 * severity is in the server's language.
 */
const isLastWord = (error: unknown): boolean => {
  const state = sqlState(error)
  if (state === null) return false
  const { severity } = error as DriverError
  if (severity === 'FATAL' || severity === 'PANIC') return true
  return /^(08|57P|25P03|25P04)/.test(state)
}

/** The connection is of no use any more, or the server behind it is not the one to write to. */
export const isBroken = (error: unknown): boolean => {
  const state = sqlState(error)
  if (state === null) return socketCode(error) !== null || isDriverText(error) || hasCode(error, ENCRYPTION)
  return isLastWord(error) || state === '25006'
}

/** A connection was not to be had in time, because others have them all or because none could be made. */
export const isOutOfTime = (error: unknown): boolean =>
  error instanceof Error && (error.message === NONE_IN_TIME || error.message === NONE_MADE)

/** By the application's `query_timeout`. */
export const isTimeout = (error: unknown): boolean =>
  error instanceof Error && sqlState(error) === null && error.message === 'Query read timeout'

/** The driver did not send it, because the connection had ended before. */
export const isUnsent = (error: unknown): boolean =>
  error instanceof Error && sqlState(error) === null && error.message.endsWith('is not queryable')

/**
 * The connection ended under a statement, or between two; another one may be well. Not what an administrator ends, who
 * would have to do it again.
 */
export const isCutOff = (error: unknown): boolean => {
  const state = sqlState(error)
  if (state !== null) return state === '57P05' || state === '25P03'
  const socket = socketCode(error)
  if (socket !== null) return socket === 'ECONNRESET' || socket === 'EPIPE'
  return isUnsent(error) || (error instanceof Error && error.message === 'Connection terminated unexpectedly')
}

/** The server said no, and nobody in between: what was sent behind the refused statement has not happened either. */
export const isRefused = (error: unknown): boolean => sqlState(error) !== null && !isLastWord(error)

const MISSING: Translation = {
  code: ERROR_CODES.schemaBehind,
  transient: false,
  text: 'lacks tables, columns or functions that this version needs. Migrate it first, and check the options schema and prefix.',
}

const GIVEN_UP: Translation = {
  code: ERROR_CODES.commitRolledBack,
  transient: false,
  text:
    'has given this transaction up because of an earlier error in it, so nothing of it is stored. Let that error out ' +
    'of the function, or put what may fail into a nested transaction.',
}

const READ_ONLY: Translation = {
  code: ERROR_CODES.storeReadOnly,
  transient: true,
  text: 'is read-only: a standby, or a server that was demoted. Point the store at the primary.',
}

const NO_ENCRYPTION: Translation = {
  ...unavailable('could not agree on an encrypted connection. Check sslmode, or ssl.', false),
  quotes: true,
}

/** What the driver says before the server has let us in, by its text. */
const NOT_LET_IN: readonly (readonly [text: RegExp, Translation])[] = [
  [
    /^SASL: SCRAM-SERVER-FIRST-MESSAGE: client password/,
    unavailable('wants a password, and none was given. Put it into the connection string.', false),
  ],
  [/^SASL: /, { ...unavailable('and the driver do not agree on how to log in.', false), quotes: true }],
  [
    /^The server does not support SSL/,
    unavailable('takes no encrypted connections, and sslmode or ssl asks for one.', false),
  ],
  [
    /^There was an error establishing an SSL connection/,
    unavailable(
      'answered the wish for encryption with neither yes nor no, as one does that has no connection or memory left.',
      true,
    ),
  ],
]

/** Node has many: expired, signed by itself, for another host, by an authority that is not known. */
const CERTIFICATE = /CERT|UNABLE_TO_VERIFY/
/** What the other side says of ours. */
const OUR_CERTIFICATE = /_ALERT_.*(CERT|UNKNOWN_CA)/

const REFUSED_CERTIFICATE: Translation = {
  ...unavailable(
    'wants a certificate of ours, and none was given or it does not trust it. Check sslcert and sslkey, or ssl.cert and ssl.key.',
    false,
  ),
  quotes: true,
}

const UNREADABLE: Translation = {
  ...unavailable('cannot be asked: a file that the connection string names cannot be read.', false),
  quotes: true,
}

const UNTRUSTED: Translation = {
  ...unavailable(
    'has a certificate that is not trusted. Name its authority by sslrootcert or ssl.ca, and the server as the certificate does.',
    false,
  ),
  quotes: true,
}

const notLetIn = (error: unknown): Translation | undefined => {
  if (!(error instanceof Error)) return undefined
  // The driver reads the files of certificates when it makes a connection. A missing socket is not opened but connected to.
  if ((error as NodeJS.ErrnoException).syscall === 'open') return UNREADABLE
  if (hasCode(error, OUR_CERTIFICATE)) return REFUSED_CERTIFICATE
  if (hasCode(error, CERTIFICATE)) return UNTRUSTED
  if (hasCode(error, ENCRYPTION)) return NO_ENCRYPTION
  return hasCode(error, /./) ? undefined : NOT_LET_IN.find(([text]) => text.test(error.message))?.[1]
}

const NO_CONNECTION = unavailable(
  'gave no connection in time: all of the pool were in use, or could not be made. Check that the server answers; if it does, end transactions sooner or make the pool larger.',
  true,
)

const TOO_LONG = unavailable(
  'ended the connection because a transaction on it took too long, or waited too long for its next statement (transaction_timeout, idle_in_transaction_session_timeout).',
  true,
)

const WRONG_PASSWORD = unavailable('refused the user name or password. Check the connection string.', false)

/** By code, or by the first two characters, which name the class. */
const TRANSLATIONS: Readonly<Record<string, Translation>> = {
  '08': unavailable('cannot be reached: the connection failed.', true),
  '23': REFUSED_ROW,
  '25006': READ_ONLY,
  '25P02': GIVEN_UP,
  '25P03': TOO_LONG,
  '25P04': TOO_LONG,
  '28000': WRONG_PASSWORD,
  '28P01': WRONG_PASSWORD,
  '3D000': unavailable('does not have the database that the connection string names.', false),
  '3F000': MISSING,
  '40001': GAVE_WAY,
  '40P01': DEADLOCKED,
  '42501': {
    code: ERROR_CODES.storeReadOnly,
    transient: false,
    text: 'does not allow this to the role in use. docs/postgres.md lists what each role needs.',
    quotes: true,
  },
  '42703': MISSING,
  '42883': MISSING,
  '42P01': MISSING,
  '53': unavailable('has no room left: connections, memory or disk.', true),
  '53300': TOO_MANY_CONNECTIONS,
  '55P03': LOCK_TIMED_OUT,
  '57014': CANCELLED,
  '57P': unavailable('is starting, stopping, or ended the connection.', true),
  '58': unavailable('met an error of its system.', true),
}

const translationOf = (state: string): Translation | undefined =>
  TRANSLATIONS[state] ?? TRANSLATIONS[state.slice(0, 3)] ?? TRANSLATIONS[state.slice(0, 2)]

/**
 * Whoever ends the connection says nothing about the statement, whatever the code. Settings of a connection string that are
 * not understood have to be mended.
 */
const unnamed = (error: unknown, state: string, message: string): Translation =>
  isLastWord(error)
    ? { ...unavailable('ended the connection.', !/^(22|42)/.test(state)), quotes: true }
    : refusedStatement(`refused a statement: ${message}`)

/**
 * Errors of our own pass unchanged, so that a caller may translate at every border; so do errors that no
 * database raised, because a mistake in a program must not look like an outage.
 */
export const storeErrorOf = (error: unknown, place: string): unknown => {
  if (error instanceof OutboxError) return error
  const state = sqlState(error)
  if (state !== null) {
    const { message, constraint } = error as DriverError
    const known = translationOf(state) ?? unnamed(error, state, String(message))
    return new StoreError(known.code, `${place} ${sentenceOf(known, error)}`, {
      cause: error,
      transient: known.transient,
      sqlState: state,
      ...(known.mayBeContent === true ? { mayBeContent: true } : {}),
      ...(typeof constraint === 'string' ? { constraint } : {}),
    })
  }
  const known = (error as Partial<Error> | null)?.message === NONE_IN_TIME ? NO_CONNECTION : notLetIn(error)
  if (known !== undefined)
    return new StoreError(known.code, `${place} ${sentenceOf(known, error)}`, {
      cause: error,
      transient: known.transient,
    })
  const socket = socketCode(error)
  if (socket === null && !isDriverText(error)) return error
  return unreachable(error, place, socket)
}
