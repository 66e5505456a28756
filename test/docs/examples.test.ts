/**
 * Every TypeScript block of the documents compiles against the source, all in one program; those marked
 * `ts run` are run as programs of their own, each in an empty folder, and print what the document says.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import ts from 'typescript'
import { afterAll, describe, expect, it } from 'vitest'
import { codeBlocks, PAGES, ROOT, writeExamples } from './code-blocks.ts'

const run = promisify(execFile)

// Inside the repository, so that packages are found; ignored by git and by every tool.
mkdirSync(join(ROOT, '.cache'), { recursive: true })
const folder = mkdtempSync(join(ROOT, '.cache', 'docs-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const examples = writeExamples(folder)

const compile = (files: readonly string[]): string[] => {
  const config = ts.getParsedCommandLineOfConfigFile(join(ROOT, 'tsconfig.json'), undefined, {
    ...ts.sys,
    onUnRecoverableConfigFileDiagnostic: (diagnostic) => {
      throw new Error(ts.flattenDiagnosticMessageText(diagnostic.messageText, '\n'))
    },
  })
  const program = ts.createProgram(files, { ...config?.options, noEmit: true })
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const text = ts.flattenDiagnosticMessageText(messageText, '\n')
    const example = examples.find((one) => one.file === file?.fileName)
    if (file === undefined || example === undefined) return `${file?.fileName ?? ''}: ${text}`
    const { line } = file.getLineAndCharacterOfPosition(start ?? 0)
    return `${example.page}:${example.line + 1 + line} ${text}`
  })
}

describe('the code in the documents', () => {
  it('is there, on pages that exist', () => {
    expect(examples.length).toBeGreaterThan(20)
    expect(new Set(examples.map(({ file }) => file)).size).toBe(examples.length)
  })

  it('is TypeScript that says so: no block is written as typescript, js or javascript', () => {
    const odd = PAGES.flatMap(codeBlocks).filter(({ language }) => /^(typescript|js|javascript)$/.test(language))
    expect(odd.map(({ page, line }) => `${page}:${line}`)).toEqual([])
  })

  it('compiles', () => {
    expect(compile(examples.map(({ file }) => file))).toEqual([])
  })
})

describe.concurrent('the programs in the documents', () => {
  const programs = examples.filter(({ flags }) => flags.includes('run'))

  it.each(programs.map((one) => [`${one.page}:${one.line}`, one] as const))('%s runs', async (_, example) => {
    const cwd = mkdtempSync(join(dirname(example.file), 'run-'))
    const { stdout } = await run('node', ['--import', 'tsx', relative(cwd, example.file)], { cwd })
    if (example.output !== null) expect(stdout).toBe(example.output)
  })
})
