/**
 * Finds statements that begin or end transactions in SQL text, also those that do it silently: on MySQL every
 * change of a table's definition commits. Inside a transaction of ours they are refused, because what was
 * published before would be stored although the transaction goes on to fail.
 */
const CONTROL = new Set(['BEGIN', 'START', 'COMMIT', 'ROLLBACK', 'SAVEPOINT', 'RELEASE', 'XA'])
const SET_AUTOCOMMIT = 'SET AUTOCOMMIT'

/** They commit what is open before they do their own work. */
const COMMITTING = new Set([
  'ALTER',
  'ANALYZE',
  'CREATE',
  'DROP',
  'FLUSH',
  'GRANT',
  'INSTALL',
  'LOCK',
  'OPTIMIZE',
  'RENAME',
  'REPAIR',
  'REVOKE',
  'TRUNCATE',
  'UNINSTALL',
  'UNLOCK',
])

/** Comments that the server executes begin so; what is in them counts. */
const EXECUTABLE = /\/\*M?!\d*|\*\//g

/** Strings, quoted names, comments, words, and everything else one character at a time. */
const TOKEN =
  /'(?:[^'\\]|''|\\[\s\S])*'?|"(?:[^"\\]|""|\\[\s\S])*"?|`(?:[^`]|``)*`?|--[ \t\n][^\n]*|#[^\n]*|\/\*(?!M?!)[\s\S]*?(?:\*\/|$)|\/\*M?!\d*|\*\/|@{0,2}[A-Za-z_][A-Za-z0-9_$]*|[\s\S]/g

const isBlank = (token: string): boolean =>
  /^\s$/.test(token) ||
  token.startsWith('-- ') ||
  token.startsWith('--\t') ||
  token.startsWith('--\n') ||
  token.startsWith('#') ||
  token === '(' ||
  (token.startsWith('/*') && !/^\/\*M?!/.test(token)) ||
  token.replace(EXECUTABLE, '') === ''

const controlOf = (words: readonly string[]): string | null => {
  const [first = ''] = words
  if (CONTROL.has(first)) return first
  if (COMMITTING.has(first)) return words.slice(1, 4).includes('TEMPORARY') ? null : first
  return first === 'SET' && words.some((word) => /^(@@(SESSION|LOCAL)?)?AUTOCOMMIT$/.test(word))
    ? SET_AUTOCOMMIT
    : null
}

/** Who writes such a keyword wants to steer the transaction; all others commit it beside their own work. */
export const isSteering = (keyword: string): boolean => CONTROL.has(keyword) || keyword === SET_AUTOCOMMIT

/** The keyword that was found, or null. */
export const transactionControl = (sql: string): string | null => {
  let words: string[] = []
  for (const token of sql.match(TOKEN) ?? []) {
    if (isBlank(token)) continue
    if (token === ';') {
      const found = controlOf(words)
      if (found !== null) return found
      words = []
      continue
    }
    if (words.length < 8) words.push(token.toUpperCase())
  }
  return controlOf(words)
}
