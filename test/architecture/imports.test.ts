import { describe, expect, it } from 'vitest'
import { REPOSITORY, repositoryWith } from './rules/fixture.ts'
import { checkImports } from './rules/import-law.ts'
import { importsOf } from './rules/source-files.ts'

const violationsOf = (path: string, text: string): string[] => checkImports(repositoryWith({ [path]: text }))

describe('the import law', () => {
  it('is kept by this repository', () => {
    expect(checkImports(REPOSITORY)).toEqual([])
  })

  it('accepts a tree without sources', () => {
    expect(checkImports(repositoryWith({}))).toEqual([])
  })

  it.each([
    ['src/core/model/event.ts', `import type { A } from './delivery.ts'`],
    ['src/core/spi/store.ts', `import { A } from '../model/event.ts'\nimport { B } from '../errors.ts'`],
    ['src/core/policy/retry.ts', `import type { A } from '../spi/store.ts'`],
    ['src/core/policy/retry.ts', `import { type A, type B } from '../spi/store.ts'`],
    ['src/core/flow/publish.ts', `import { AsyncLocalStorage } from 'node:async_hooks'`],
    [
      'src/core/flow/publish.ts',
      `import { Buffer } from 'node:buffer'\nimport { retry } from '../policy/retry.ts'`,
    ],
    ['src/core/runtime/system-runtime.ts', `import { randomBytes } from 'node:crypto'`],
    [
      'src/core/flow/publish.test.ts',
      `import { it } from 'vitest'\nimport { m } from '../../stores/memory/index.ts'`,
    ],
    ['src/stores/sqlite/sqlite-store.ts', `import type { Store } from '../../core/spi/index.ts'`],
    [
      'src/stores/sqlite/statements/a.ts',
      `import { q } from '../../sql/identifiers.ts'\nimport '../rows.ts'`,
    ],
    ['src/stores/sqlite/drivers.ts', `const load = () => import('better-sqlite3')`],
    ['src/testing/index.ts', `export * from '../core/outbox.ts'\nexport * from '../stores/memory/index.ts'`],
    ['src/nestjs/module.ts', `import { Module } from '@nestjs/common'\nimport '../core/outbox.ts'`],
    ['demo/main.ts', `import { a } from '../src/index.ts'`],
  ])('accepts %s with %s', (path, text) => {
    expect(violationsOf(path, text)).toEqual([])
  })

  it.each([
    [
      'src/core/model/event.ts',
      `import { A } from '../spi/store.ts'`,
      'may import only itself, src/core/errors.ts; not src/core/spi/store.ts',
    ],
    ['src/core/model/event.ts', `import 'node:buffer'`, 'may import none of Node’s modules, not node:buffer'],
    ['src/core/spi/store.ts', `import type { A } from '../policy/retry.ts'`, 'not src/core/policy/retry.ts'],
    ['src/core/policy/retry.ts', `import { A } from '../spi/store.ts'`, 'as types only (import type)'],
    ['src/core/policy/retry.ts', `import { A } from '../flow/worker.ts'`, 'not src/core/flow/worker.ts'],
    ['src/core/flow/publish.ts', `import { readFileSync } from 'node:fs'`, 'not node:fs: go through Runtime'],
    ['src/core/outbox.ts', `export * from '../stores/memory/index.ts'`, 'not src/stores/memory/index.ts'],
    ['src/core/outbox.ts', `import { z } from 'zod'`, 'imports the package "zod"'],
    ['src/index.ts', `export * from './stores/sqlite/index.ts'`, 'not src/stores/sqlite/index.ts'],
    ['src/stores/sqlite/a.ts', `import { x } from '../memory/index.ts'`, 'not src/stores/memory/index.ts'],
    [
      'src/stores/sqlite/a.ts',
      `import { x } from '../../core/flow/settle.ts'`,
      'not src/core/flow/settle.ts',
    ],
    [
      'src/stores/sqlite/a.ts',
      `import { x } from '../../core/model/event.ts'`,
      'not src/core/model/event.ts',
    ],
    ['src/stores/sqlite/a.ts', `import type D from 'better-sqlite3'`, 'imports the package "better-sqlite3"'],
    ['src/nestjs/module.ts', `import { z } from 'zod'`, 'imports the package "zod"'],
    ['src/core/outbox.ts', `import '@nestjs/common'`, 'imports the package "@nestjs/common"'],
    [
      'src/stores/sql/migrator.ts',
      `import { x } from '../sqlite/index.ts'`,
      'not src/stores/sqlite/index.ts',
    ],
    [
      'src/testing/index.ts',
      `import { x } from '../stores/sqlite/index.ts'`,
      'not src/stores/sqlite/index.ts',
    ],
    [
      'src/core/a.test.ts',
      `import { x } from '../../test/support.ts'`,
      'may not import test/ (test/support.ts)',
    ],
    ['src/core/a.ts', `const x = await import('../../simulator/world.ts')`, 'may not import simulator/'],
    ['src/stores/sqlite/a.ts', `type X = import('../../../bench/x.ts').X`, 'may not import bench/'],
    ['src/testing/a.ts', `export { x } from '../../demo/x.ts'`, 'may not import demo/'],
  ])('refuses %s with %s', (path, text, message) => {
    const violations = violationsOf(path, `\n${text}\n`)
    expect(violations).toHaveLength(1)
    expect(violations[0]).toContain(`${path}:2 `)
    expect(violations[0]).toContain(message)
  })
})

describe('reading imports', () => {
  it('sees declarations, re-exports, types, import() and require(), and ignores comments and strings', () => {
    const text = [
      `// import { no } from './comment.ts'`,
      `const s = "import { no } from './string.ts'"`,
      `import a from './a.ts'`,
      `import type { B } from './b.ts'`,
      `export * from './c.ts'`,
      `type D = import('./d.ts').D`,
      `const e = () => import('./e.ts')`,
      `const f = require('./f.ts')`,
    ].join('\n')
    const root = repositoryWith({ 'src/x.ts': text })
    expect(
      importsOf(root, 'src/x.ts').map(({ target, typeOnly, dynamic, line }) => [
        target,
        typeOnly,
        dynamic,
        line,
      ]),
    ).toEqual([
      ['src/a.ts', false, false, 3],
      ['src/b.ts', true, false, 4],
      ['src/c.ts', false, false, 5],
      ['src/d.ts', true, false, 6],
      ['src/e.ts', false, true, 7],
      ['src/f.ts', false, true, 8],
    ])
  })
})
