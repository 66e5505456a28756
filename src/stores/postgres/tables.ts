/** Names of everything that the migrations make, qualified by the schema, so that no search path matters. */
import { quoteIdentifier, TABLE_NAMES, type TableName, type Tables } from '../sql/identifiers.ts'

export interface PostgresTables extends Tables {
  /** Quoted. */
  readonly schema: string
  /** Where positions come from, as a text literal for `nextval`. */
  readonly sequence: string
  /** The function that stores one plain event. */
  readonly insertOne: string
  /** Unquoted: for catalogues, locks and channels. */
  readonly names: { readonly schema: string; readonly prefix: string }
}

export const postgresTables = (schema: string, prefix: string): PostgresTables => {
  const qualified = (name: string): string => `${quoteIdentifier(schema)}.${quoteIdentifier(prefix + name)}`
  const names = Object.fromEntries(TABLE_NAMES.map((name) => [name, qualified(name)]))
  return Object.freeze({
    ...(names as Record<TableName, string>),
    prefix,
    schema: quoteIdentifier(schema),
    sequence: `'${qualified('events_seq')}'`,
    insertOne: qualified('insert_one'),
    names: { schema, prefix },
  })
}
