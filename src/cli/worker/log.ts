/**
 * What a worker says, on standard error: lines to read where somebody looks at a terminal, and JSON lines for whoever
 * collects them, or asks for JSON. Secrets are masked on the way.
 */
import type { WorkerSettings } from '../../config/load-config.ts'
import { maskSecrets } from '../../core/model/mask-secrets.ts'
import { createJsonLogger, reaches, SILENT_LOGGER } from '../../core/runtime/logger.ts'
import type { Logger, LogLevel } from '../../core/spi/index.ts'
import { type Colour, type Paint, painter, wantsColour } from '../terminal.ts'
import { clean, cut } from '../text.ts'

type Fields = Readonly<Record<string, unknown>>

const COLOURS: Readonly<Record<LogLevel, Colour>> = {
  debug: 'dim',
  info: 'green',
  warn: 'yellow',
  error: 'red',
}

/** A whole page of one value hides the lines around it; the JSON lines have more. */
const LONGEST = 500

/** Cut first and with some to spare, so that a text of megabytes is not searched, nor a password cut in two. */
const masked = (text: string): string => maskSecrets(text.slice(0, 4 * LONGEST))

const errorText = (error: Error): string => {
  const code = 'code' in error && typeof error.code === 'string' ? ` (${error.code})` : ''
  return `${masked(error.message)}${code}`
}

/** Masked before they are quoted: a quote within a quote is written so that nobody would find the password in it. */
const plain = (_name: string, value: unknown): unknown => {
  if (value instanceof Error) return errorText(value)
  if (typeof value === 'bigint') return String(value)
  return typeof value === 'string' ? masked(value) : value
}

const valueText = (value: unknown): string => {
  const given = plain('', value)
  if (typeof given === 'string')
    return typeof value !== 'string' || /^[^\s"=]+$/.test(given) ? given : JSON.stringify(given)
  try {
    return JSON.stringify(given, plain) ?? String(given)
  } catch {
    return '(cannot be shown)'
  }
}

/** `12:05:31 warn  message  name=value …` */
export const logLine = (
  level: LogLevel,
  message: string,
  fields: Fields,
  { at, paint }: { readonly at: Date; readonly paint: Paint },
): string => {
  const shown = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null)
  const details = shown.map(([name, value]) => `${name}=${cut(clean(valueText(value)), LONGEST)}`)
  return [
    `${paint('dim', at.toTimeString().slice(0, 8))} ${paint(COLOURS[level], level.padEnd(5))} ${clean(message)}`,
    ...(details.length === 0 ? [] : [paint('dim', details.join(' '))]),
  ].join('  ')
}

const textLogger = (level: LogLevel, noColour: boolean): Logger => {
  const paint = painter(wantsColour(process.stderr, process.env, noColour))
  const isEnabled = (at: LogLevel): boolean => reaches(at, level)
  return {
    isEnabled,
    log(at, message, fields = {}) {
      if (isEnabled(at)) process.stderr.write(`${logLine(at, message, fields, { at: new Date(), paint })}\n`)
    },
  }
}

const jsonLogger = (level: LogLevel): Logger =>
  createJsonLogger({
    level,
    wallNow: () => Date.now(),
    write: (line) => process.stderr.write(`${line}\n`),
  })

/** `index` is which of a supervisor's processes this is, or null. */
export const workerLogger = (
  level: WorkerSettings['logLevel'],
  index: number | null,
  { isJson, noColour }: { readonly isJson: boolean; readonly noColour: boolean },
): Logger => {
  if (level === 'silent') return SILENT_LOGGER
  const isWatched = process.stderr.isTTY === true && !isJson
  const inner = isWatched ? textLogger(level, noColour) : jsonLogger(level)
  const fields = {
    // Whoever looks at a terminal knows which process it is.
    ...(isWatched ? {} : { pid: process.pid }),
    ...(index === null ? {} : { worker: index }),
  }
  return { ...inner, log: (at, message, more) => inner.log(at, message, { ...fields, ...more }) }
}
