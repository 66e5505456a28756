/**
 * Every TypeScript block of the documents compiles against the source, all in one program; those marked
 * `ts run` are run, each in a folder of its own, and print what the document says. All that need no server are, but
 * for those marked `ts compiled`: they serve for ever, belong to another runner, or are run by another test.
 */
import { execFile } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import ts from 'typescript'
import { afterAll, describe, expect, it } from 'vitest'
import {
  CLIENT_PAGES,
  codeBlocks,
  type Example,
  isolate,
  newFolder,
  PAGES,
  ROOT,
  tsxEnvironment,
  writePage,
} from './code-blocks.ts'

const folder = newFolder()
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const examples = (await Promise.all(PAGES.map((page) => writePage(page, folder)))).flat()
/** Those of clients have tests of their own, because most of them need a server. */
const programs = examples.filter(({ flags, page }) => flags.includes('run') && !CLIENT_PAGES.includes(page))

const compile = (files: readonly string[]): string[] => {
  const config = ts.getParsedCommandLineOfConfigFile(join(ROOT, 'tsconfig.json'), undefined, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: (diagnostic) => {
      throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n'))
    },
  })
  // Of the types of Node 20 this one is missing.
  const nodeSqlite = join(ROOT, 'test', 'nodes', 'node-sqlite.d.ts')
  const program = ts.createProgram([...files, nodeSqlite], { ...config?.options, noEmit: true })
  // The sources that they import are compiled by the gate.
  const found = files.flatMap((file) => ts.getPreEmitDiagnostics(program, program.getSourceFile(file)))
  return found.map(({ file, start, messageText }) => {
    const text = ts.flattenDiagnosticMessageText(messageText, '\n')
    const example = examples.find((one) => one.file === file?.fileName)
    if (file === undefined || example === undefined) return `${file?.fileName ?? ''}: ${text}`
    const { line } = file.getLineAndCharacterOfPosition(start ?? 0)
    return `${example.page}:${example.line + 1 + line} ${text}`
  })
}

/** One process for all of them, because starting one takes longer than most programs run. */
const RUNNER = `
import { format } from 'node:util'
for (const { path, cwd } of JSON.parse(process.argv[2])) {
  let output = ''
  let error = null
  console.log = (...args) => { output += format(...args) + '\\n' }
  process.chdir(cwd)
  try { await import(path) } catch (problem) { error = String(problem?.stack ?? problem) }
  process.stdout.write(JSON.stringify({ output, error }) + '\\n')
}
`

interface Ran {
  readonly output: string
  readonly error: string | null
}

const runAll = async (): Promise<ReadonlyMap<Example, Ran>> => {
  const runner = join(folder, 'runner.mts')
  writeFileSync(runner, RUNNER)
  const list = programs.map((one) => {
    const path = isolate(one, examples)
    return { path, cwd: join(path, '..') }
  })
  // It must end by itself: whatever a program opens, it closes.
  const args = ['--import', 'tsx', runner, JSON.stringify(list)]
  const env = { ...process.env, ...tsxEnvironment(folder) }
  const { stdout } = await promisify(execFile)('node', args, { cwd: ROOT, env })
  const lines = stdout.trimEnd().split('\n')
  return new Map(programs.map((one, index) => [one, JSON.parse(lines[index] ?? 'null') as Ran]))
}

describe('the code in the documents', () => {
  it('is there, and no two blocks of a page are the same file', () => {
    expect(examples.length).toBeGreaterThan(20)
    expect(new Set(examples.map(({ file }) => file)).size).toBe(examples.length)
  })

  it('is marked ts, which is what is looked for', () => {
    const odd = PAGES.flatMap(codeBlocks).filter(({ language }) =>
      /^(typescript|js|javascript)$/.test(language),
    )
    expect(odd.map(({ page, line }) => `${page}:${line}`)).toEqual([])
  })

  it('is run, unless it needs a server or says that it is only compiled', () => {
    const needsServer = /\b(?:postgresStore|mysqlStore|PostgresDialect|process\.env\.DATABASE_URL)\b/
    const idle = examples.filter(
      ({ flags, code }) => !flags.includes('run') && !flags.includes('compiled') && !needsServer.test(code),
    )
    expect(idle.map(({ page, line }) => `${page}:${line}`)).toEqual([])
  })

  it('compiles', () => {
    expect(compile(examples.map(({ file }) => file))).toEqual([])
  }, 180_000)

  it('runs where it says so, and prints what is said', async () => {
    const ran = await runAll()
    for (const program of programs) {
      const where = `${program.page}:${program.line}`
      expect({ where, error: ran.get(program)?.error }).toEqual({ where, error: null })
      if (program.output === null) continue
      expect({ where, output: ran.get(program)?.output }).toEqual({ where, output: program.output })
    }
  }, 180_000)
})
