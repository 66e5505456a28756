/** From a row of another outbox to an event that can be published. */
import type { Draft } from '../../core/define-event.ts'
import { isUuid } from '../../core/model/uuid.ts'
import type { Role } from './shapes.ts'
import type { Column, ReadRow, RowId } from './statements.ts'

export const FORMATS = ['json', 'text', 'bytes'] as const
export type Format = (typeof FORMATS)[number]

export interface DraftRules {
  readonly columns: ReadonlyMap<Role, Column>
  /** Header by column. */
  readonly headers: ReadonlyMap<string, Column>
  /** Instead of a column. */
  readonly type: string | null
  /** Null: bytes where the column has bytes, JSON elsewhere. */
  readonly format: Format | null
  readonly contentType: string
  readonly nowMs: number
}

/** A row that cannot become an event; the message says why, without what is in the row. */
export class BadRow extends Error {}

/** Under what an event carries the id that it had, where that is no UUID. */
export const IMPORTED_ID = 'imported-id'

const HEX_UUID = /^[0-9a-f]{32}$/i

/** The same UUID, in dashes; null for ids of another kind. */
export const uuidOf = ({ text }: RowId): string | null => {
  if (HEX_UUID.test(text))
    return text.toLowerCase().replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  return isUuid(text) ? text.toLowerCase() : null
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const decoded = (bytes: Uint8Array, what: string): string => {
  try {
    return decoder.decode(bytes)
  } catch {
    throw new BadRow(`its ${what} is not UTF-8`)
  }
}

/** What a column holds: text, or bytes where it is a column of bytes. */
const contentOf = (value: unknown, { kind }: Column): string | Uint8Array | null => {
  if (value === null || value === undefined) return null
  if (value instanceof Uint8Array) return value
  return kind === 'bytes' ? Buffer.from(String(value), 'hex') : String(value)
}

export const textOf = (value: unknown, column: Column, what: string): string | null => {
  const content = contentOf(value, column)
  return content instanceof Uint8Array ? decoded(content, what) : content
}

/** Seconds, milliseconds or microseconds since 1970, told apart by their size. */
const epochMs = (number: number): number => {
  const size = Math.abs(number)
  if (size >= 1e14) return number / 1_000
  return size >= 1e11 ? number : number * 1_000
}

/** Without a zone it is UTC. */
const parsedMs = (text: string): number => {
  const plain = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)
  return Date.parse(plain ? `${text.replace(' ', 'T')}Z` : text)
}

/** Null for what is no time. */
export const timeOf = (value: unknown, { kind }: Column): Date | null => {
  if (value === null || value === undefined) return null
  const text = String(value)
  const number = /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : null
  const isTime = kind === 'instant' || kind === 'datetime'
  const ms = isTime ? Number(text) : number === null ? parsedMs(text) : epochMs(number)
  const date = new Date(Math.trunc(ms))
  return Number.isNaN(date.getTime()) ? null : date
}

const headerText = (value: unknown): string | null => {
  if (value === null || value === undefined) return null
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

const parsedHeaders = (text: string): Readonly<Record<string, unknown>> => {
  try {
    const parsed: unknown = JSON.parse(text)
    if (parsed === null) return {}
    if (typeof parsed === 'object' && !Array.isArray(parsed)) return parsed as Record<string, unknown>
  } catch {}
  throw new BadRow('its headers are not a JSON object')
}

/** Short, because databases cut long names. */
export const headerAlias = (index: number): string => `h${index}`

const NO_COLUMN: Column = { name: '', kind: 'text' }

export const draftOf = ({ id, values }: ReadRow, rules: DraftRules): Draft => {
  const { columns } = rules
  /** Empty is none: neither a key nor a tenant can be empty. */
  const named = (role: Role): string | null => {
    const column = columns.get(role)
    const text = column === undefined ? null : textOf(values[role], column, role)
    return text === '' ? null : text
  }
  const type = rules.type ?? named('type')
  if (type === null) throw new BadRow('its type is empty')
  const uuid = uuidOf(id)
  const headers: Record<string, string> = Object.create(null)
  const given = columns.has('headers') ? named('headers') : null
  const said = [
    ...Object.entries(given === null ? {} : parsedHeaders(given)),
    ...[...rules.headers].map(
      ([name, column], index) => [name, textOf(values[headerAlias(index)], column, name)] as const,
    ),
    ...(uuid === null ? [[IMPORTED_ID, id.text] as const] : []),
  ]
  for (const [name, value] of said) {
    const text = headerText(value)
    if (text !== null) headers[name] = text
  }
  const created = timeOf(values.created, columns.get('created') ?? NO_COLUMN)
  const due = timeOf(values.due, columns.get('due') ?? NO_COLUMN)
  // After a failure it is the next attempt, and the failures of another worker say nothing about this one.
  const isDelayed = due !== null && due.getTime() > rules.nowMs && Number(values.attempts ?? 0) === 0
  return {
    type,
    ...contentFor(values.payload, rules),
    ...(uuid === null ? {} : { id: uuid }),
    key: named('key'),
    aggregateType: named('aggregate-type'),
    aggregateId: named('aggregate-id'),
    tenantId: named('tenant'),
    idempotencyKey: named('idempotency-key'),
    headers,
    ...(created === null ? {} : { occurredAt: created }),
    ...(isDelayed ? { dueAt: due } : {}),
  } as Draft
}

const contentFor = (
  value: unknown,
  { columns, format, contentType }: DraftRules,
): { readonly json: string } | { readonly payload: unknown; readonly contentType?: string } => {
  const content = contentOf(value, columns.get('payload') ?? NO_COLUMN)
  if (content === null) return { json: 'null' }
  const isBytes = content instanceof Uint8Array
  if ((format ?? (isBytes ? 'bytes' : 'json')) === 'bytes')
    return { payload: isBytes ? new Uint8Array(content) : new Uint8Array(Buffer.from(content)), contentType }
  const text = isBytes ? decoded(content, 'payload') : content
  return format === 'text' ? { payload: text } : { json: text }
}
