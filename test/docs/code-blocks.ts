/** The code of the documents: which blocks there are, and how they become files that a compiler can read. */
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { generatePrisma } from '../../scripts/prisma.ts'
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

const pagesIn = (folder: string): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => `${folder}/${name}`)

/** One for each client; their programs need the library's database, so they run by themselves. */
export const CLIENT_PAGES: readonly string[] = pagesIn('docs/clients')

export const PAGES: readonly string[] = [
  'README.md',
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...pagesIn('docs'),
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
  /^\/\/ ([\w.-]+\.ts)\n/.exec(block.code)?.[1] ?? `line-${block.line}.ts`

const homeOf = (page: string, folder: string): string =>
  join(folder, page.slice(0, -'.md'.length).toLowerCase())

/** Writes the TypeScript of a page, in a folder of its own, and what Prisma's client is generated from. */
export const writePage = async (page: string, folder: string): Promise<Example[]> => {
  const home = homeOf(page, folder)
  mkdirSync(home, { recursive: true })
  const blocks = codeBlocks(page)
  const schema = blocks.find(({ language }) => language === 'prisma')
  if (schema !== undefined) {
    writeFileSync(join(home, 'schema.prisma'), schema.code)
    await generatePrisma(home)
  }
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
}

/** A folder for what is written: inside the repository, so that packages are found; ignored by git and by every tool. */
export const newFolder = (parent = ROOT): string => {
  mkdirSync(join(parent, '.cache'), { recursive: true })
  return mkdtempSync(join(parent, '.cache', 'docs-'))
}

/** What tsx has to be told to run a file in this folder: it reads options of the compiler only for files that they are meant for. */
export const tsxEnvironment = (folder: string): { readonly TSX_TSCONFIG_PATH: string } => {
  const TSX_TSCONFIG_PATH = join(folder, 'tsconfig.json')
  writeFileSync(
    TSX_TSCONFIG_PATH,
    JSON.stringify({ extends: join(ROOT, 'tsconfig.json'), include: ['**/*'] }),
  )
  return { TSX_TSCONFIG_PATH }
}

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
