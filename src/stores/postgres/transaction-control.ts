/**
 * Finds statements that begin or end transactions in SQL text. Inside a transaction of ours they are refused:
 * a savepoint that is rolled back behind our back would leave events that are dispatched and not stored.
 */
const CONTROL = new Set(['BEGIN', 'START', 'COMMIT', 'END', 'ROLLBACK', 'ABORT', 'SAVEPOINT', 'RELEASE'])

/**
 * Dollar-quoted bodies, strings, quoted names, comments, words, and everything else one character at a time.
 * A backslash before a quote counts only in E'' strings, which the first alternative after the dollars takes.
 */
const TOKEN =
  /\$([A-Za-z_][A-Za-z0-9_]*)?\$[\s\S]*?(?:\$\1\$|$)|[eE]'(?:[^'\\]|''|\\[\s\S])*'?|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|[A-Za-z_][A-Za-z0-9_$]*|[\s\S]/g

const isBlank = (token: string): boolean =>
  /^\s$/.test(token) || token.startsWith('--') || token.startsWith('/*')

/** A text without any of these words has none of those statements. */
const WORDS = new RegExp([...CONTROL, 'PREPARE'].join('|'), 'i')

/** The keyword that was found, or null. */
export const transactionControl = (sql: string): string | null => (WORDS.test(sql) ? find(sql) : null)

const find = (sql: string): string | null => {
  let words: string[] = []
  for (const [token] of sql.matchAll(TOKEN)) {
    if (isBlank(token)) continue
    if (token === ';') {
      words = []
      continue
    }
    if (words.length >= 2) continue
    const word = token.toUpperCase()
    if (words.length === 0 && CONTROL.has(word)) return word
    if (words[0] === 'PREPARE' && word === 'TRANSACTION') return 'PREPARE TRANSACTION'
    words.push(word)
  }
  return null
}
