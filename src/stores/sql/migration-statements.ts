/**
 * Migrations as single statements, for the migration files of other tools, whose drivers often take one at a time.
 * Released migrations never change, so a range of versions means the same for ever.
 */
import type { Migration } from './migrator.ts'
import { checkWhole, refuse } from './options.ts'

export interface MigrationRange {
  /** The version that the tables have afterwards. It is written down, so that a later release does not change the file. */
  readonly to: number
  /** The version that they have before. Default 0: there are none. */
  readonly from?: number
  /** Whether the view `all` is made, which is for people and not for the library. Default true. */
  readonly view?: boolean
}

/** Without names, which are quoted: one may be called so. */
const VIEW = /^(?:--.*\n)*CREATE\b[^("`]*?\bVIEW\b/

/** Comments, texts, names and bodies of functions, in which a semicolon ends nothing; a semicolon; anything else. */
const PIECE =
  /--[^\n]*|\/\*[\s\S]*?\*\/|'(?:[^']|'')*'|"[^"]*"|`[^`]*`|(\$\w*\$)[\s\S]*?\1|;|[^-/'"`$;]+|[\s\S]/g

/** Each with its semicolon, and with the comment before it. */
export const splitStatements = (script: string): readonly string[] => {
  const statements: string[] = []
  let statement = ''
  for (const [piece] of script.matchAll(PIECE)) {
    statement += piece
    if (piece !== ';') continue
    statements.push(statement.trim())
    statement = ''
  }
  return statements
}

/** The migrations that lead from one version to the other, in order. */
export const migrationsWithin = (
  migrations: readonly Migration[],
  { from = 0, to }: MigrationRange,
): readonly Migration[] => {
  checkWhole('to', to, 1, migrations.length)
  checkWhole('from', from, 0, to - 1)
  return migrations.filter(({ version }) => version > from && version <= to)
}

/** The statements of these scripts, with or without the view. */
export const statementsOf = (
  scripts: readonly string[],
  { view = true }: MigrationRange,
): readonly string[] => {
  if (typeof view !== 'boolean') refuse('view', view, 'must be true or false')
  const statements = scripts.flatMap(splitStatements)
  return view ? statements : statements.filter((statement) => !VIEW.test(statement))
}
