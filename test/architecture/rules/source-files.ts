/** What the rules have in common: finding files below a root, and reading what a TypeScript file imports. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, posix, relative, sep } from 'node:path'
import ts from 'typescript'

/** One sentence for a person: where, what, and what to do instead. */
export type Violation = string

const NEVER_OURS = new Set(['node_modules', 'dist', 'coverage', '.git', '.cache'])

/** Files below `root`/`dir` whose name passes `accept`, as sorted paths with `/`, relative to `root`. */
export const listFiles = (root: string, dir: string, accept: (path: string) => boolean): string[] => {
  const absolute = join(root, dir)
  if (!existsSync(absolute)) return []
  const found: string[] = []
  for (const entry of readdirSync(absolute, { withFileTypes: true })) {
    if (NEVER_OURS.has(entry.name)) continue
    const path = posix.join(dir.split(sep).join('/'), entry.name)
    if (entry.isDirectory()) found.push(...listFiles(root, path, accept))
    else if (accept(path)) found.push(path)
  }
  return found.sort()
}

export const readText = (root: string, path: string): string => readFileSync(join(root, path), 'utf8')

export const isTypeScript = (path: string): boolean => path.endsWith('.ts')
export const isTest = (path: string): boolean => path.endsWith('.test.ts')
export const isGenerated = (path: string): boolean => path.endsWith('.generated.ts')

export interface Import {
  /** As it is written. */
  readonly specifier: string
  /** For a relative specifier: the file it means, relative to the root, with `/`. Else null. */
  readonly target: string | null
  /** Leaves no trace at run time. */
  readonly typeOnly: boolean
  /** `import()` rather than a declaration. */
  readonly dynamic: boolean
  readonly line: number
}

const isTypeOnlyDeclaration = (node: ts.ImportDeclaration | ts.ExportDeclaration): boolean => {
  if (ts.isExportDeclaration(node)) return node.isTypeOnly
  const clause = node.importClause
  if (clause === undefined) return false
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true
  const named = clause.namedBindings
  return (
    clause.name === undefined &&
    named !== undefined &&
    ts.isNamedImports(named) &&
    named.elements.length > 0 &&
    named.elements.every((element) => element.isTypeOnly)
  )
}

/** Every import, re-export, `import()` and `require()` with a literal specifier, in order. */
export const importsOf = (root: string, path: string): Import[] => {
  const source = ts.createSourceFile(path, readText(root, path), ts.ScriptTarget.ES2023, true)
  const found: Import[] = []
  const add = (at: ts.Expression | undefined, typeOnly: boolean, dynamic: boolean): void => {
    if (at === undefined || !ts.isStringLiteralLike(at)) return
    const target = at.text.startsWith('.')
      ? relative(root, join(root, dirname(path), at.text))
          .split(sep)
          .join('/')
      : null
    const line = source.getLineAndCharacterOfPosition(at.getStart()).line + 1
    found.push({ specifier: at.text, target, typeOnly, dynamic, line })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) {
      add(node.moduleSpecifier, isTypeOnlyDeclaration(node), false)
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal as ts.Expression, true, false)
    } else if (ts.isCallExpression(node)) {
      const { expression } = node
      const isRequire = ts.isIdentifier(expression) && expression.text === 'require'
      if (isRequire || expression.kind === ts.SyntaxKind.ImportKeyword) add(node.arguments[0], false, true)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}
