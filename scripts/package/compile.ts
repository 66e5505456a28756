/** Compiles the programs of all folders as users do: strict, with the types of what they installed. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  strict: true,
  skipLibCheck: true,
  esModuleInterop: true,
  types: ['node'],
  preserveSymlinks: true,
}

const FORMS = [
  ['main.mts', 'main.mjs'],
  ['main.cts', 'main.cjs'],
] as const

/** Writes the programs beside their sources. Types are another matter, and take longer. */
export const emit = (home: string): void => {
  for (const [source, target] of FORMS) {
    const fileName = join(home, source)
    const { outputText } = ts.transpileModule(readFileSync(fileName, 'utf8'), {
      compilerOptions: OPTIONS,
      fileName,
    })
    writeFileSync(join(home, target), outputText)
  }
}

/** What is wrong with their types, one line each; one program for all of them, which saves most of the time. */
export const checkTypes = (homes: readonly string[]): string[] => {
  const files = homes.flatMap((home) =>
    [...FORMS.map(([source]) => source), 'node-sqlite.d.ts']
      .map((name) => join(home, name))
      .filter((file) => existsSync(file)),
  )
  const typeRoots = homes.slice(0, 1).map((home) => join(home, 'node_modules', '@types'))
  const program = ts.createProgram(files, { ...OPTIONS, typeRoots, noEmit: true })
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const text = ts.flattenDiagnosticMessageText(messageText, '\n')
    if (file === undefined) return text
    const { line } = file.getLineAndCharacterOfPosition(start ?? 0)
    return `${file.fileName}:${line + 1} ${text}`
  })
}
