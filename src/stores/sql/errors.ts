/** What errors of a database, and of the network before it, become; each store knows the codes of its own. */
import { ERROR_CODES, type ErrorCode, StoreError } from '../../core/errors.ts'

/** What Node says of a connection that cannot be made, or is no more. */
export const SOCKET_CODES: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENETDOWN',
  'EAI_AGAIN',
  'ENOTFOUND',
  'ENOENT',
])

/** The one of these codes that the error has; null when it has none. */
export const socketCode = (error: unknown, codes = SOCKET_CODES): string | null => {
  if (typeof error !== 'object' || error === null) return null
  const { code, errors } = error as { readonly code?: unknown; readonly errors?: unknown }
  if (typeof code === 'string' && codes.has(code)) return code
  if (!Array.isArray(errors)) return null
  // Node reports a host with several addresses as one error with several inside.
  return errors.map((inner) => socketCode(inner, codes)).find((found) => found !== null) ?? null
}

/** The text goes on behind the name of the place. */
export interface Translation {
  readonly code: ErrorCode
  readonly transient: boolean
  readonly text: string
  /** What the server says is worth repeating: it names what this is about, and nothing of what is stored. */
  readonly quotes?: true
  /** It may be what is in the statement, and not the database, that is the matter. */
  readonly mayBeContent?: true
}

export const sentenceOf = ({ text, quotes }: Translation, error: unknown): string =>
  quotes === true ? `${text} It says: ${(error as Error).message}` : text

export const unavailable = (text: string, transient: boolean): Translation => ({
  code: ERROR_CODES.storeUnavailable,
  transient,
  text,
})

/** For a reason that nobody knows here. */
export const refusedStatement = (text: string): Translation => ({
  ...unavailable(text, false),
  mayBeContent: true,
})

export const busy = (text: string): Translation => ({ code: ERROR_CODES.storeBusy, transient: true, text })

// What several servers say under codes of their own.

export const REFUSED_ROW: Translation = {
  code: ERROR_CODES.conflict,
  transient: false,
  text: 'refused a row. An event or delivery with this id may be stored already.',
}

/** Said of what looks after partitions, where there are none. */
export const NO_PARTITIONS: Translation = {
  code: ERROR_CODES.schemaBehind,
  transient: false,
  text:
    'has tables without partitions, but the option layout is "partitioned". Set it to "plain" in every process, as it was ' +
    'when the tables were made: migrate does not turn one into the other.',
}

export const GAVE_WAY = busy('gave a transaction up in favour of another one. Try it again.')

export const DEADLOCKED = busy('ended a transaction to resolve a deadlock. Try it again.')

export const LOCK_TIMED_OUT = busy('did not give a lock in time. Try it again.')

export const CANCELLED = busy('cancelled a statement that took too long.')

export const TOO_MANY_CONNECTIONS = unavailable(
  'has no connection left for us. Raise max_connections, or lower the size of the pools.',
  true,
)

export const unreachable = (error: unknown, place: string, socket: string | null): StoreError =>
  new StoreError(
    ERROR_CODES.storeUnavailable,
    `${place} cannot be reached${socket === null ? '' : ` (${socket})`}. Check that the server runs, and its address and port.`,
    { cause: error, transient: true, ...(socket === null ? {} : { socket }) },
  )
