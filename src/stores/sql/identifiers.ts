/**
 * Names that end up in SQL text. They cannot be bound as parameters, so they are checked against a narrow
 * allowlist when the store is built and quoted nevertheless.
 */
import { InvalidOptionError } from '../../core/errors.ts'

/** Letters, digits and underscore; the first one no digit. Leaves room for our own names behind a prefix. */
const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,39}$/

export const TABLE_NAMES = [
  'events',
  'deliveries',
  'finished',
  'lanes',
  'workers',
  'attempts',
  'dedup',
  'destinations',
  'audit',
  'stats',
  'migrations',
] as const

export type TableName = (typeof TABLE_NAMES)[number]

/** Quoted names of all tables, plus the prefix they were made from. */
export type Tables = Readonly<Record<TableName, string>> & { readonly prefix: string }

export const checkName = (option: string, value: unknown): string => {
  // Anchors alone are not enough: `$` also matches before a final line feed in other languages' engines, so
  // the length is compared too and nobody has to think about it again.
  if (typeof value === 'string' && NAME.exec(value)?.[0].length === value.length) return value
  throw new InvalidOptionError(
    `${option} must be 1 to 40 letters, digits or underscores and not begin with a digit`,
    { option, value },
  )
}

export const checkPrefix = (option: string, value: unknown): string => {
  const name = checkName(option, value)
  if (/^sqlite_/i.test(name)) {
    throw new InvalidOptionError(
      `${option} must not begin with "sqlite_", which the database keeps for itself`,
      {
        option,
        value,
      },
    )
  }
  return name
}

/** Double quotes are SQL's standard; a quote inside is doubled although the allowlist has none. */
export const quoteIdentifier = (name: string): string => `"${name.replaceAll('"', '""')}"`

export const tablesOf = (prefix: string): Tables => {
  const names = Object.fromEntries(TABLE_NAMES.map((name) => [name, quoteIdentifier(prefix + name)]))
  return Object.freeze({ ...(names as Record<TableName, string>), prefix })
}
