import type { Logger, LogLevel } from '../spi/index.ts'

const RANK: Readonly<Record<LogLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }

/** Longest text of one field; a log must not become the place where memory goes. */
const FIELD_LIMIT = 4_000

const cut = (text: string): string => (text.length <= FIELD_LIMIT ? text : `${text.slice(0, FIELD_LIMIT)}…`)

const describeError = (error: Error): Record<string, unknown> => ({
  name: error.name,
  ...('code' in error ? { code: error.code } : {}),
  message: cut(error.message),
  ...(error.stack === undefined ? {} : { stack: cut(error.stack) }),
  ...(error.cause instanceof Error ? { cause: cut(`${error.cause.name}: ${error.cause.message}`) } : {}),
})

const field = (_key: string, value: unknown): unknown => {
  if (value instanceof Error) return describeError(value)
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'string') return cut(value)
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

/** One JSON object per line: time, level, message, then the fields. Errors are written with code and stack. */
export const createJsonLogger = (options: JsonLoggerOptions): Logger => {
  const lowest = RANK[options.level ?? 'info']
  return {
    log(level, message, fields) {
      if (RANK[level] < lowest) return
      const bare = { time: new Date(options.wallNow()).toISOString(), level, message: cut(message) }
      // The three standard names win over fields of the same name.
      options.write(line({ ...bare, ...fields, ...bare }, bare))
    },
  }
}

export const SILENT_LOGGER: Logger = Object.freeze({ log: () => undefined })

/** The same logger, but one whose failures stay its own: stages may log anywhere without a second thought. */
export const guardedLogger = (logger: Logger): Logger => ({
  log(level, message, fields) {
    try {
      logger.log(level, message, fields)
    } catch {
      // There is nowhere left to report this to.
    }
  },
})
