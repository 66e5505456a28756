/** Text from data on its way to a terminal. */
import { maskSecrets } from '../core/model/mask-secrets.ts'

// Controls, the other half of them, line separators, and marks that turn the direction of writing around.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what this is about.
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

const NAMED: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

const escapeOne = (character: string): string => {
  const code = character.codePointAt(0) ?? 0
  return NAMED[character] ?? (code < 256 ? `\\x${hex(code, 2)}` : `\\u${hex(code, 4)}`)
}

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0')

/** On one line, without anything that a terminal would obey, and without passwords. */
export const clean = (text: string): string => maskSecrets(text).replace(UNSAFE, escapeOne)

/** The same for text of several lines. */
export const cleanLines = (text: string): readonly string[] => text.split(/\r?\n/).map(clean)

/** BigInts as text; what a terminal would obey is escaped as JSON can. */
export const jsonText = (value: unknown): string =>
  JSON.stringify(value, (_, one: unknown) => (typeof one === 'bigint' ? one.toString() : one)).replace(
    UNSAFE,
    (character) => `\\u${hex(character.codePointAt(0) ?? 0, 4)}`,
  )

/** At most this many columns; an ellipsis says that there was more. */
export const cut = (text: string, columns: number): string =>
  text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 1))}…`

/** The same, where both ends say something. */
export const cutMiddle = (text: string, columns: number): string => {
  if (text.length <= columns) return text
  const kept = Math.max(0, columns - 1)
  const head = Math.ceil(kept / 2)
  return `${text.slice(0, head)}…${text.slice(text.length - (kept - head))}`
}

export const count = (amount: number, one: string, many = `${one}s`): string =>
  `${amount.toLocaleString('en-US')} ${amount === 1 ? one : many}`

const DELIVERIES = ['delivery', 'deliveries'] as const
export const deliveriesText = (amount: number): string => count(amount, ...DELIVERIES)

export const waitingText = (amount: number): string =>
  `${deliveriesText(amount)} ${amount === 1 ? 'waits' : 'wait'}`
