/** Names of everything that the migrations make. The database is the connection's own, so names are not qualified. */
import { TABLE_NAMES, type TableName, type Tables } from '../sql/identifiers.ts'

/** A quote inside is doubled although the allowlist of prefixes has none. */
export const quoteName = (name: string): string => `\`${name.replaceAll('`', '``')}\``

export const mysqlTables = (prefix: string): Tables => {
  const names = Object.fromEntries(TABLE_NAMES.map((name) => [name, quoteName(prefix + name)]))
  return Object.freeze({ ...(names as Record<TableName, string>), prefix })
}
