/** What went wrong, in words and as an exit code. Nothing here ever shows a password. */

import { onOneLine } from '../config/errors.ts'
import { ERROR_CODES } from '../core/errors.ts'
import { maskSecrets } from '../core/model/mask-secrets.ts'
import { EXIT, EXIT_BY_CODE } from './exit-codes.ts'
import { UsageError } from './parse.ts'
import { clean } from './text.ts'

export interface Failure {
  readonly exitCode: number
  readonly code: string
  readonly message: string
  /** What to do next, where there is more to say than the message does. */
  readonly hint: string | null
  /** For --json: how far it came. */
  readonly told?: Readonly<Record<string, unknown>>
}

/** Ctrl-C, noticed at a point where nothing is half done. */
export class Interrupted extends Error {
  readonly told: Readonly<Record<string, unknown>>

  constructor(message: string, told: Readonly<Record<string, unknown>> = {}) {
    super(message)
    this.told = told
  }
}

const HINTS: Readonly<Record<string, string>> = {
  [ERROR_CODES.schemaBehind]:
    'posthaste config, with the same flags, shows which database is meant; --schema and --prefix, with --url, name other tables in it',
  [ERROR_CODES.storeUnavailable]: 'posthaste config, with the same flags, shows which database is meant',
}

const causeOf = (error: unknown): string => {
  const { cause } = error as { readonly cause?: unknown }
  if (!(cause instanceof Error)) return ''
  // Errors for several addresses have no text of their own.
  const inner = cause instanceof AggregateError ? (cause.errors[0] as Error | undefined) : cause
  const said = inner?.message || (inner as { readonly code?: string } | undefined)?.code || ''
  const text = onOneLine(said)
  const known = (error as Error).message
  return text === '' || known.includes(text) || known.includes(maskSecrets(text)) ? '' : ` (${text})`
}

/** For people: the code is what docs/errors.md and a search find. Others than ours say nothing there. */
export const failureText = ({ message, code }: Pick<Failure, 'message' | 'code'>): string =>
  code.startsWith('POSTHASTE_') ? `${message} [${code}]` : message

export const describeFailure = (error: unknown): Failure => {
  if (error instanceof UsageError) {
    const hint =
      error.command === null
        ? 'posthaste help lists the commands'
        : `posthaste help ${error.command} explains it`
    return { exitCode: EXIT.usage, code: 'USAGE', message: clean(error.message), hint }
  }
  if (error instanceof Interrupted)
    return {
      exitCode: EXIT.interrupted,
      code: 'INTERRUPTED',
      message: clean(error.message),
      hint: null,
      told: error.told,
    }
  const code = String((error as { readonly code?: unknown } | null)?.code ?? 'UNEXPECTED')
  const message = error instanceof Error ? `${error.message}${causeOf(error)}` : String(error)
  return {
    exitCode: EXIT_BY_CODE[code] ?? EXIT.failed,
    code,
    message: clean(message),
    hint: HINTS[code] ?? null,
  }
}
