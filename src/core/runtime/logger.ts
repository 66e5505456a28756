import { maskSecrets } from '../model/mask-secrets.ts'
import type { Logger, LogLevel } from '../spi/index.ts'

const RANK: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }

export const reaches = (level: LogLevel, lowest: LogLevel): boolean => RANK[level] >= RANK[lowest]

/** Longest text of one field; a log must not become the place where memory goes. */
const FIELD_LIMIT = 4_000

/** Cut first and with some to spare, so that a text of megabytes is not searched, nor a password cut in two. */
const safe = (text: string): string => {
  const masked = maskSecrets(text.length <= 2 * FIELD_LIMIT ? text : text.slice(0, 2 * FIELD_LIMIT))
  return masked.length <= FIELD_LIMIT ? masked : `${masked.slice(0, FIELD_LIMIT)}…`
}

const describeError = (error: Error): Record<string, unknown> => ({
  name: error.name,
  ...('code' in error ? { code: error.code } : {}),
  message: safe(error.message),
  ...(error.stack === undefined ? {} : { stack: safe(error.stack) }),
  ...(error.cause instanceof Error ? { cause: safe(`${error.cause.name}: ${error.cause.message}`) } : {}),
})

const field = (_key: string, value: unknown): unknown => {
  if (value instanceof Error) return describeError(value)
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'string') return safe(value)
  return value
}

const line = (record: Readonly<Record<string, unknown>>, bare: Readonly<Record<string, unknown>>): string => {
  try {
    return JSON.stringify(record, field)
  } catch {
    // A cycle or a throwing getter in a field: the message is worth more than its fields.
    return JSON.stringify({ ...bare, fields: 'could not be written as JSON' })
  }
}

export interface JsonLoggerOptions {
  readonly write: (line: string) => void
  readonly wallNow: () => number
  /** Lowest level that is written. Default `info`. */
  readonly level?: LogLevel
}

/**
 * One JSON object per line: time, level, message, then the fields. Errors are written with code and stack, passwords in
 * texts as `***`.
 */
export const createJsonLogger = (options: JsonLoggerOptions): Logger => {
  const isEnabled = (level: LogLevel): boolean => reaches(level, options.level ?? 'info')
  return {
    isEnabled,
    log(level, message, fields) {
      if (!isEnabled(level)) return
      const bare = { time: new Date(options.wallNow()).toISOString(), level, message: safe(message) }
      // The three standard names win over fields of the same name.
      options.write(line({ ...bare, ...fields, ...bare }, bare))
    },
  }
}

export const SILENT_LOGGER: Logger = Object.freeze({ log: () => undefined, isEnabled: () => false })

/** What a logger of the application gets: an error with the same class and code, and nothing that was not asked for. */
const maskedError = (error: Error): Error => {
  const copy = Object.create(Object.getPrototypeOf(error)) as Error & { code?: unknown }
  const own = describeError(error)
  for (const name of ['code', 'message', 'stack', 'cause', 'name'] as const) {
    if (own[name] === undefined || own[name] === copy[name as 'name']) continue
    Object.defineProperty(copy, name, { value: own[name], configurable: true, writable: true })
  }
  return copy
}

const masked = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> => {
  const copy: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(fields)) {
    copy[name] =
      typeof value === 'string' ? maskSecrets(value) : value instanceof Error ? maskedError(value) : value
  }
  return copy
}

/**
 * The same logger, but one whose failures stay its own, and which gets no passwords: stages may log anywhere, and
 * whatever a driver said, without a second thought.
 */
export const guardedLogger = (logger: Logger): Logger => ({
  isEnabled(level) {
    try {
      return logger.isEnabled?.(level) ?? level !== 'debug'
    } catch {
      return level !== 'debug'
    }
  },
  log(level, message, fields) {
    try {
      logger.log(level, message, fields === undefined ? undefined : masked(fields))
    } catch {
      // There is nowhere left to report this to.
    }
  },
})
