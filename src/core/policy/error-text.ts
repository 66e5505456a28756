/**
 * Describes whatever was thrown within bounds, for the history of attempts and for logs. Errors come from code that
 * is not ours: getters may throw, proxies may lie, texts may be huge or unfit for a database column. Nothing in
 * here throws. Passwords in addresses and settings become `***`.
 */
import { maskSecrets } from '../model/mask-secrets.ts'

export interface DescribedError {
  readonly code?: string
  readonly message: string
  readonly stack?: string
}

const MAX_CODE_CHARS = 128
/** How far `cause` is followed; cycles end here too. */
const MAX_CAUSES = 5

export function describeError(
  error: unknown,
  { maxText = 4000 }: { readonly maxText?: number } = {},
): DescribedError {
  const code = firstAlongCauses(error, readCode)
  const stack = readProperty(error, 'stack')
  return {
    ...(code === undefined ? {} : { code }),
    message: cutText(toLine(describeChain(error, maxText)), maxText),
    ...(typeof stack === 'string' && stack !== ''
      ? { stack: cutText(toLines(stack, maxText), maxText) }
      : {}),
  }
}

/** Undefined for what cannot be read: primitives, missing properties, getters and proxies that throw. */
export function readProperty(value: unknown, name: string): unknown {
  if (typeof value !== 'object' && typeof value !== 'function') return undefined
  try {
    return (value as Record<string, unknown> | null)?.[name]
  } catch {
    return undefined
  }
}

/** The first answer that is not undefined, of the error itself and then of its causes. */
export function firstAlongCauses<T>(error: unknown, ask: (error: object) => T | undefined): T | undefined {
  for (const link of causesOf(error)) {
    const answer = typeof link === 'object' && link !== null ? ask(link) : undefined
    if (answer !== undefined) return answer
  }
  return undefined
}

/** The error and up to five causes. */
function causesOf(error: unknown): unknown[] {
  const chain: unknown[] = []
  let link = error
  do {
    chain.push(link)
    link = readProperty(link, 'cause')
  } while (link !== undefined && link !== null && chain.length <= MAX_CAUSES && !chain.includes(link))
  return chain
}

function readCode(error: object): string | undefined {
  const code = readProperty(error, 'code')
  const text = typeof code === 'number' ? String(code) : code
  if (typeof text !== 'string' || text === '') return undefined
  return cutText(toLine(text.slice(0, 2 * MAX_CODE_CHARS)), MAX_CODE_CHARS) || undefined
}

/** "fetch failed" alone helps nobody: what caused it belongs to the message. */
function describeChain(error: unknown, maxText: number): string {
  const parts: string[] = []
  for (const link of causesOf(error)) {
    // Twice as much as is kept, so that a password at the end is not cut in two before it is recognised.
    const part = describeOne(link).slice(0, 2 * maxText + 1)
    if (!parts.some((earlier) => earlier.includes(part))) parts.push(part)
  }
  return parts.join('; caused by: ')
}

function describeOne(error: unknown): string {
  if (typeof error === 'string') return error === '' ? 'an empty string was thrown' : error
  if (error === null || (typeof error !== 'object' && typeof error !== 'function')) {
    return `${String(error)} was thrown`
  }
  const message = readProperty(error, 'message')
  if (typeof message === 'string' && message !== '') return message
  const name = readProperty(error, 'name') ?? readProperty(readProperty(error, 'constructor'), 'name')
  if (typeof name === 'string' && name !== '') return `${name} without a message`
  return `${typeof error === 'object' ? 'an object' : 'a function'} without a message was thrown`
}

/** Colours of terminals: their escape character alone would be stripped below, and leave the rest as litter. */
const COLOURS = /\p{Cc}\[[0-9;]{0,20}m/gu

/** Databases reject U+0000, logs are forged by line breaks, terminals obey escapes: none of them gets in. */
const toLine = (text: string): string =>
  maskSecrets(toWellFormed(text.replace(COLOURS, '').replace(/\p{Cc}+/gu, ' ')))

/** Cut before the patterns run, so that a stack of megabytes costs no more than one of kilobytes. */
const toLines = (stack: string, maxText: number): string =>
  stack
    .slice(0, 2 * maxText + 1)
    .split('\n')
    .map(toLine)
    .join('\n')

const toWellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, '\ufffd')

/** Marks a cut with an ellipsis and never leaves half a surrogate pair behind. */
function cutText(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text
  const end = maxChars - 1
  const last = text.charCodeAt(end - 1)
  return `${text.slice(0, last >= 0xd800 && last <= 0xdbff ? end - 1 : end)}…`
}
