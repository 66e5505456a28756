/** Every command that a document names exists, by the program's own parser: `posthaste …` with its flags, and `npm run …`. */
import { describe, expect, it } from 'vitest'
import { COMMANDS } from '../../src/cli/commands/index.ts'
import { checkOperands, parse } from '../../src/cli/parse.ts'
import { PAGES, readPage } from './code-blocks.ts'

interface Call {
  readonly page: string
  readonly line: string
  /** A line to type, which must have everything that the command needs; in a sentence its name is enough. */
  readonly whole: boolean
}

const CALL = /^(?:[A-Z_]+=\S+ )*(?:npx )?posthaste (?<rest>\S.*)$/
const BLOCK = /^ *```(\w*)[^\n]*\n([\s\S]*?)^ *```$/gm

const callsIn = (page: string): Call[] => {
  const text = readPage(page)
  const typed = [...text.matchAll(BLOCK)]
    .filter(([, language]) => language === 'sh')
    // A line that ends in a backslash goes on in the next one.
    .flatMap(([, , code = '']) => code.replace(/\\\n\s*/g, ' ').split('\n'))
  const said = [...text.replace(BLOCK, '').matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span)
  return [typed, said].flatMap((lines, index) =>
    lines
      .map((line) => line.trim())
      .filter((line) => CALL.test(line))
      .map((line) => ({ page, line, whole: index === 0 })),
  )
}

/** Words as a shell makes them, up to a comment, a pipe or a redirection. */
const wordsOf = (line: string): string[] => {
  const rest = CALL.exec(line)?.groups?.rest ?? ''
  const words = [...rest.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([word]) =>
    word.replaceAll(/["']/g, ''),
  )
  const end = words.findIndex((word) => /^(?:#.*|\||\|\||&&|>)$/.test(word))
  return end === -1 ? words : words.slice(0, end)
}

const problemOf = ({ line, whole }: Pick<Call, 'line' | 'whole'>): string | null => {
  try {
    const parsed = parse(wordsOf(line), COMMANDS)
    if (whole) checkOperands(parsed)
    return null
  } catch (error) {
    return (error as Error).message
  }
}

describe('commands in the documents', () => {
  it('of posthaste exist, with their flags and operands', () => {
    // What was released stays in the changelog.
    const calls = PAGES.filter((page) => page !== 'CHANGELOG.md').flatMap(callsIn)
    expect(calls.length).toBeGreaterThan(120)
    const wrong = calls.flatMap((call) => {
      const problem = problemOf(call)
      return problem === null ? [] : [`${call.page}: "${call.line}": ${problem}`]
    })
    expect([...new Set(wrong)]).toEqual([])
  })

  it.each([
    ['posthaste statsu', /there is no command "statsu"/],
    ['npx posthaste dead redrive --everything', /does not know the flag --everything/],
    ['posthaste why   # which one?', /why needs ID/],
    ['POSTHASTE_POLL_INTERVAL=5s posthaste config --json | jq .', null],
    ['posthaste dead edit ID --payload \'{"a":1}\' --reason "a typo"', null],
  ])('%s is judged', (line, problem) => {
    const said = problemOf({ line, whole: true })
    if (problem === null) expect(said).toBeNull()
    else expect(said).toMatch(problem)
  })

  it('of npm exist', () => {
    const { scripts } = JSON.parse(readPage('package.json')) as { readonly scripts: Record<string, string> }
    const named = PAGES.flatMap((page) =>
      [...readPage(page).matchAll(/\bnpm run (?:-s )?([a-z][\w:-]*)/g)].map(([, name = '']) => ({
        page,
        name,
      })),
    )
    expect(named.length).toBeGreaterThan(50)
    expect(named.filter(({ name }) => scripts[name] === undefined)).toEqual([])
  })
})
