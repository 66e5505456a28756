/** Compiles the programs of all folders at once, as users do: strict, with the types of what they installed. */
import { existsSync } from 'node:fs'
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

/** What is wrong, in one line each. The programs are written beside their sources. */
export const compile = (homes: readonly string[]): string[] => {
  const files = homes.flatMap((home) => [
    join(home, 'main.mts'),
    join(home, 'main.cts'),
    ...['node-sqlite.d.ts'].map((name) => join(home, name)).filter(existsSync),
  ])
  const typeRoots = homes.slice(0, 1).map((home) => join(home, 'node_modules', '@types'))
  const program = ts.createProgram(files, { ...OPTIONS, typeRoots })
  const { diagnostics } = program.emit()
  return [...ts.getPreEmitDiagnostics(program), ...diagnostics].map(({ file, start, messageText }) => {
    const text = ts.flattenDiagnosticMessageText(messageText, '\n')
    if (file === undefined) return text
    const { line } = file.getLineAndCharacterOfPosition(start ?? 0)
    return `${file.fileName}:${line + 1} ${text}`
  })
}
