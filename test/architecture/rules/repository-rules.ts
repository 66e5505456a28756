/** Rules about text: how long files get, links that lead somewhere, nothing left half done. */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { isGenerated, isTest, isTypeScript, listFiles, readText, type Violation } from './source-files.ts'

const MAX_LINES = 400
const CODE_FOLDERS = ['src', 'test', 'demo', 'bench', 'simulator', 'chaos', 'mutants', 'scripts']

const markdownFiles = (root: string): string[] => [
  ...listFiles(root, '.', (path) => path.endsWith('.md') && !path.includes('/')),
  ...listFiles(root, 'docs', (path) => path.endsWith('.md')),
]

export const checkFileSizes = (root: string): Violation[] =>
  ['src', 'test']
    .flatMap((folder) => listFiles(root, folder, (path) => isTypeScript(path) && !isGenerated(path)))
    .flatMap((path) => {
      const lines = readText(root, path).replace(/\n$/, '').split('\n').length
      return lines > MAX_LINES ? [`${path} has ${lines} lines; split it, the limit is ${MAX_LINES}`] : []
    })

const LINK = /\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\[[^\]]+\]:\s*(\S+)/gm
const isElsewhere = (link: string): boolean => /^[a-z][a-z+.-]*:/i.test(link) || link.startsWith('#')

/** Code samples may contain anything; blank lines in their place keep the line numbers right. */
const withoutCode = (markdown: string): string =>
  markdown
    .replace(/^(`{3,}|~{3,})[^\n]*\n[\s\S]*?^\1[^\n]*$/gm, (block) => block.replace(/[^\n]/g, ''))
    .replace(/`[^`\n]*`/g, '')

export const checkDocLinks = (root: string): Violation[] =>
  markdownFiles(root).flatMap((path) => {
    const text = withoutCode(readText(root, path))
    return [...text.matchAll(LINK)].flatMap((match) => {
      const link = match[1] ?? match[2] ?? ''
      if (isElsewhere(link)) return []
      const file = decodeURIComponent(link.replace(/[#?].*$/, ''))
      const target = file.startsWith('/') ? join(root, file) : join(root, dirname(path), file)
      const line = text.slice(0, match.index).split('\n').length
      return existsSync(target) ? [] : [`${path}:${line} links to ${link}, which does not exist`]
    })
  })

const eachLine = (
  root: string,
  paths: readonly string[],
  judge: (line: string) => string | null,
): Violation[] =>
  paths.flatMap((path) =>
    readText(root, path)
      .split('\n')
      .flatMap((line, index) => {
        const problem = judge(line)
        return problem === null ? [] : [`${path}:${index + 1} ${problem}`]
      }),
  )

/** Written in two halves, so that this file does not find itself. */
const UNFINISHED = new RegExp(`\\b(${'TO'}DO|${'FIX'}ME)\\b`)

export const checkUnfinished = (root: string): Violation[] =>
  eachLine(
    root,
    [...CODE_FOLDERS.flatMap((folder) => listFiles(root, folder, isTypeScript)), ...markdownFiles(root)],
    (line) => {
      const mark = UNFINISHED.exec(line)?.[1]
      return mark === undefined ? null : `says ${mark}: do it now, or open an issue`
    },
  )

const SKIPPED = /\b(?:describe|it|test|suite)(?:\.\w+)*\.(only|skip|skipIf|todo)\b/

/** A test that does not run looks like a test that passes. */
export const checkSkippedTests = (root: string): Violation[] =>
  eachLine(
    root,
    ['src', 'test'].flatMap((folder) => listFiles(root, folder, isTest)),
    (line) => {
      const how = SKIPPED.exec(line)?.[1]
      return how === undefined ? null : `uses .${how}: every test must run`
    },
  )

const STORE_CALL = /postgresStore\((?:\{([^}]*)\})?/g

/** Two examples on one database must not deliver each other's events. */
export const checkExampleSchemas = (root: string): Violation[] => {
  const owners = new Map<string, string>()
  return listFiles(root, 'examples', isTypeScript).flatMap((path) =>
    [...readText(root, path).matchAll(STORE_CALL)].flatMap(([, options = '']) => {
      const schema = /schema: '([^']+)'/.exec(options)?.[1]
      if (schema === undefined) return [`${path} keeps its outbox in the default schema; name one of its own`]
      const owner = owners.get(schema)
      owners.set(schema, path)
      return owner === undefined ? [] : [`${path} has the schema of ${owner}; name one of its own`]
    }),
  )
}

const ERRORS = 'src/core/errors.ts'
const ERRORS_DOC = 'docs/errors.md'
const CODE = /\bPOSTHASTE_[A-Z_]*[A-Z]\b/g
/** A code that the page is about, rather than one (or a variable) that its prose mentions. */
const ENTRY = /^(?:#+|\|)\s*`?(POSTHASTE_[A-Z_]*[A-Z])\b/gm

/** `docs/errors.md` lists every code that can be thrown, and has no entry for one that cannot. */
export const checkErrorCodes = (root: string): Violation[] => {
  if (!existsSync(join(root, ERRORS)) || !existsSync(join(root, ERRORS_DOC))) return []
  const page = readText(root, ERRORS_DOC)
  const thrown = new Set(
    [...readText(root, ERRORS).matchAll(/'(POSTHASTE_[A-Z_]+)'/g)].map((m) => m[1] ?? ''),
  )
  const mentioned = new Set([...page.matchAll(CODE)].map((match) => match[0]))
  const entries = [...page.matchAll(ENTRY)].map((match) => match[1] ?? '')
  const missing = [...thrown].filter((code) => !mentioned.has(code))
  const stale = entries.filter((code) => !thrown.has(code))
  return [
    ...missing.map((code) => `${ERRORS_DOC} does not list ${code} of ${ERRORS}`),
    ...stale.map((code) => `${ERRORS_DOC} lists ${code}, which ${ERRORS} does not have`),
  ]
}
