/**
 * Finds statements that begin or end transactions in SQL text. Inside a transaction of ours they are refused:
 * a savepoint that is rolled back behind our back would leave events that are dispatched and not stored.
 */
const CONTROL = new Set(['BEGIN', 'COMMIT', 'END', 'ROLLBACK', 'SAVEPOINT', 'RELEASE'])

/** Strings, quoted names, comments, words, and everything else one character at a time. */
const TOKEN =
  /'(?:[^']|'')*'?|"(?:[^"]|"")*"?|`(?:[^`]|``)*`?|\[[^\]]*\]?|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|[A-Za-z_][A-Za-z0-9_$]*|[\s\S]/g

const isComment = (token: string): boolean => token.startsWith('--') || token.startsWith('/*')

/** First words of a statement; three are enough to recognise `CREATE TEMP TRIGGER`. */
const opensTrigger = (words: readonly string[]): boolean =>
  words[0] === 'CREATE' && (words[1] === 'TRIGGER' || words[2] === 'TRIGGER')

/** The keyword that was found, or null. */
export const transactionControl = (sql: string): string | null => {
  let words: string[] = []
  let inTrigger = false
  for (const token of sql.match(TOKEN) ?? []) {
    if (/^\s$/.test(token) || isComment(token)) continue
    if (token === ';') {
      // A trigger's body has statements of its own and ends with one that is just END.
      if (opensTrigger(words)) inTrigger = true
      else if (inTrigger && words[0] === 'END') inTrigger = false
      words = []
      continue
    }
    const word = token.toUpperCase()
    if (words.length === 0 && CONTROL.has(word) && !(inTrigger && word === 'END')) return word
    if (words.length < 3) words.push(word)
  }
  return null
}
