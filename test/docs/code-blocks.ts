/** The code of the documents: which blocks there are, and how they become files that a compiler can read. */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { entries } from '../../tsdown.config.ts'

export const ROOT = join(import.meta.dirname, '..', '..')

export interface CodeBlock {
  /** The document, relative to the root. */
  readonly page: string
  /** Line of the opening fence, from 1. */
  readonly line: number
  readonly language: string
  /** What follows the language in the opening fence. */
  readonly flags: readonly string[]
  readonly code: string
}

export interface Example extends CodeBlock {
  /** Where the block was written. */
  readonly file: string
  /** What the program prints, if the next block of the document says so. */
  readonly output: string | null
}

export const PAGES: readonly string[] = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => `docs/${name}`),
]

export const readPage = (page: string): string => readFileSync(join(ROOT, page), 'utf8')

const BLOCK = /^```(\w+)([^\n]*)\n([\s\S]*?)^```$/gm

export const codeBlocks = (page: string): CodeBlock[] => {
  const text = readPage(page)
  return [...text.matchAll(BLOCK)].map((match) => {
    const [, language = '', info = '', code = ''] = match
    const line = text.slice(0, match.index).split('\n').length
    return { page, line, language, flags: info.trim().split(/\s+/).filter(Boolean), code }
  })
}

/** `posthaste/sqlite` → the source of that entry, as seen from the folder of the example. */
const sourceOf = (subpath: string, folder: string): string => {
  const entry = entries[subpath === '' ? 'index' : subpath.slice(1)]
  if (entry === undefined) throw new Error(`there is no subpath posthaste${subpath}`)
  return relative(folder, join(ROOT, entry))
}

const IMPORT = /(from|import)(\s+)'posthaste((?:\/[\w/-]+)?)'/g

/** A block that begins with `// name.ts` is that file, and other blocks of its page may import it. */
const nameOf = (block: CodeBlock): string =>
  /^\/\/ ([\w-]+\.ts)\n/.exec(block.code)?.[1] ?? `line-${block.line}.ts`

/** Writes the TypeScript of every page, one folder for each. */
export const writeExamples = (folder: string): Example[] =>
  PAGES.flatMap((page) => {
    const home = join(folder, basename(page, '.md').toLowerCase())
    mkdirSync(home, { recursive: true })
    const blocks = codeBlocks(page)
    return blocks.flatMap((block, index) => {
      if (block.language !== 'ts') return []
      const file = join(home, nameOf(block))
      const code = block.code.replace(
        IMPORT,
        (_, keyword: string, space: string, subpath: string) =>
          `${keyword}${space}'${sourceOf(subpath, dirname(file))}'`,
      )
      // The empty export makes a module of a block that has neither imports nor exports.
      writeFileSync(file, `${code}\nexport {}\n`)
      const next = blocks[index + 1]
      const output = next?.language === 'text' && next.flags.includes('output') ? next.code : null
      return [{ ...block, file, output }]
    })
  })

/**
 * A folder of its own for a program, beside the folders of the pages so that its imports still hold, with the
 * files that its page names: no two programs share a module. Returns the program's path.
 */
export const isolate = (example: Example, all: readonly Example[]): string => {
  const home = `${dirname(example.file)}-${example.line}`
  mkdirSync(home)
  for (const { page, file } of all) {
    if (page === example.page) copyFileSync(file, join(home, basename(file)))
  }
  return join(home, basename(example.file))
}
