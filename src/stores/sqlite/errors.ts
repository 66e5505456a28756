/**
 * SQLite's result codes → StoreError. The three drivers report the same codes in three places: better-sqlite3
 * and libsql as a name in `code`, node:sqlite as a number in `errcode`. Texts are never looked at, with one
 * exception: libsql gives nothing but a text when it cannot open a file, and ends it with the number.
 */
import { ERROR_CODES, OutboxError, StoreError } from '../../core/errors.ts'
import { busy, REFUSED_ROW, type Translation, unavailable } from '../sql/errors.ts'

const CODES = {
  BUSY: 5,
  LOCKED: 6,
  READONLY: 8,
  INTERRUPT: 9,
  IOERR: 10,
  CORRUPT: 11,
  FULL: 13,
  CANTOPEN: 14,
  CONSTRAINT: 19,
  NOTADB: 26,
} as const

type CodeName = keyof typeof CODES

const NAME_BY_CODE = new Map<number, CodeName>(
  (Object.entries(CODES) as [CodeName, number][]).map(([name, code]) => [code, name]),
)

interface DriverError {
  readonly code?: unknown
  readonly errcode?: unknown
  readonly rawCode?: unknown
  readonly message?: unknown
}

/** Raised by a library on behalf of SQLite, whatever the code. */
const isDriverError = (error: unknown): error is Error => {
  if (!(error instanceof Error)) return false
  const { code, errcode } = error as DriverError
  return typeof errcode === 'number' || (typeof code === 'string' && code.startsWith('SQLITE_'))
}

/** The primary result code's name (`BUSY` for `SQLITE_BUSY_SNAPSHOT` too); null for anything else. */
export const sqliteCode = (error: unknown): CodeName | null => {
  if (typeof error !== 'object' || error === null) return null
  const { code, errcode, rawCode, message } = error as DriverError
  for (const number of [errcode, rawCode]) {
    if (typeof number === 'number') return NAME_BY_CODE.get(number & 0xff) ?? null
  }
  if (typeof code === 'string' && code.startsWith('SQLITE_')) {
    const [name = ''] = code.slice('SQLITE_'.length).split('_')
    return name in CODES ? (name as CodeName) : null
  }
  const trailing =
    typeof message === 'string' ? /^ConnectionFailed\(.*: (\d{1,4})"\)$/.exec(message)?.[1] : undefined
  return trailing === undefined ? null : (NAME_BY_CODE.get(Number(trailing) & 0xff) ?? null)
}

/**
 * SQLite answered COMMIT with an error, so it did not happen. After a failure of the disk nobody knows, nor when no
 * transaction was left: it may have been committed by hand.
 */
export const refusesCommit = (error: unknown): boolean => ![null, 'IOERR'].includes(sqliteCode(error))

/** Of COMMIT, to which SQLite says "error" and nothing else for one reason alone: that there is no transaction. */
export const findsNoTransaction = (error: unknown): boolean => {
  if (!(error instanceof Error)) return false
  const { code, errcode, rawCode } = error as DriverError
  const number = [errcode, rawCode].find((one) => typeof one === 'number')
  return number === undefined ? code === 'SQLITE_ERROR' : number === 1
}

/** Somebody else has the lock; waiting helps. */
export const isBusy = (error: unknown): boolean => {
  const code = sqliteCode(error)
  return code === 'BUSY' || code === 'LOCKED'
}

const BUSY = busy(
  'is locked by another process or transaction. Keep transactions short, or raise busyTimeoutMs.',
)

const TRANSLATIONS: Readonly<Record<CodeName, Translation>> = {
  BUSY,
  LOCKED: BUSY,
  READONLY: {
    code: ERROR_CODES.storeReadOnly,
    transient: false,
    text: 'cannot be written. Check the permissions of the file and of its folder, and that the disk is not mounted read-only.',
  },
  INTERRUPT: unavailable('was interrupted.', true),
  IOERR: unavailable('could not be read or written: the disk reported an error.', true),
  CORRUPT: unavailable('is damaged. Run "PRAGMA integrity_check" and restore it from a backup.', false),
  FULL: unavailable('could not be written: the disk is full.', true),
  CANTOPEN: unavailable(
    'could not be opened. Check that its folder exists and that this process may write there.',
    false,
  ),
  CONSTRAINT: REFUSED_ROW,
  NOTADB: unavailable('is not a SQLite database, or it is encrypted.', false),
}

/** SQLite says "error" and nothing else for a table that is not there; only its text tells. */
const isSchemaMissing = (message: string): boolean =>
  /no such (?:table|column): |has no column named /.test(message)

/**
 * Errors of our own pass unchanged, so that a caller may translate at every border; so do errors that no
 * database raised, because a mistake in a program must not look like an outage.
 */
export const storeErrorOf = (error: unknown, place: string): unknown => {
  if (error instanceof OutboxError) return error
  const sqlite = sqliteCode(error)
  if (sqlite !== null) {
    const { code, transient, text } = TRANSLATIONS[sqlite]
    return new StoreError(code, `${place} ${text}`, { cause: error, transient, sqlite: `SQLITE_${sqlite}` })
  }
  if (!isDriverError(error)) return error
  if (isSchemaMissing(error.message)) {
    return new StoreError(
      ERROR_CODES.schemaBehind,
      `${place} lacks tables or columns that this version needs (${error.message}). Migrate it first.`,
      { cause: error },
    )
  }
  return new StoreError(ERROR_CODES.storeUnavailable, `${place} refused a statement: ${error.message}`, {
    cause: error,
    mayBeContent: true,
  })
}
