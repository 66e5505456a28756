import { describe, expect, it } from 'vitest'
import { REPOSITORY, repositoryWith } from './rules/fixture.ts'
import {
  checkDocLinks,
  checkErrorCodes,
  checkExampleSchemas,
  checkFileSizes,
  checkSkippedTests,
  checkUnfinished,
} from './rules/repository-rules.ts'

const rules = {
  checkFileSizes,
  checkDocLinks,
  checkUnfinished,
  checkSkippedTests,
  checkErrorCodes,
  checkExampleSchemas,
}

describe.each(Object.entries(rules))('%s', (_name, rule) => {
  it('is kept by this repository', () => {
    expect(rule(REPOSITORY)).toEqual([])
  })

  it('accepts an empty tree', () => {
    expect(rule(repositoryWith({}))).toEqual([])
  })
})

describe('file sizes', () => {
  it('refuses more than 400 lines, generated files apart', () => {
    const root = repositoryWith({
      'src/just.ts': '//\n'.repeat(400),
      'src/long.ts': '//\n'.repeat(401),
      'src/stores/sqlite/migrations.generated.ts': '//\n'.repeat(900),
      'test/deep/long.test.ts': '//\n'.repeat(402),
    })
    expect(checkFileSizes(root)).toEqual([
      'src/long.ts has 401 lines; split it, the limit is 400',
      'test/deep/long.test.ts has 402 lines; split it, the limit is 400',
    ])
  })
})

describe('links in documents', () => {
  it('must lead to a file or a folder', () => {
    const root = repositoryWith({
      'README.md': [
        '[good](docs/a.md#part) [web](https://example.org/x) [here](#there) ![none](docs/picture.svg)',
        '`[code](nowhere.md)`',
        '```md',
        '[sample](nowhere.md)',
        '```',
        '[gone](docs/gone.md "title")',
        '[ref]: src/gone.ts',
      ].join('\n'),
      'docs/a.md': '[up](../README.md) [folder](../docs) [sibling](b.md)',
    })
    expect(checkDocLinks(root)).toEqual([
      'README.md:1 links to docs/picture.svg, which does not exist',
      'README.md:6 links to docs/gone.md, which does not exist',
      'README.md:7 links to src/gone.ts, which does not exist',
      'docs/a.md:1 links to b.md, which does not exist',
    ])
  })
})

describe('half-done work', () => {
  // In halves, so that the rules do not find these samples when they read this file.
  const [later, broken] = [`${'TO'}DO`, `${'FIX'}ME`]

  it('is refused in code and documents', () => {
    const root = repositoryWith({
      'src/a.ts': `\n// ${later}: more\n`,
      'simulator/b.ts': `// ${broken}`,
      'docs/c.md': `a ${later}`,
      'docs/d.md': 'todos and methods are words',
    })
    expect(checkUnfinished(root)).toEqual([
      `src/a.ts:2 says ${later}: do it now, or open an issue`,
      `simulator/b.ts:1 says ${broken}: do it now, or open an issue`,
      `docs/c.md:1 says ${later}: do it now, or open an issue`,
    ])
  })

  it.each([
    ['it', 'only'],
    ['describe', 'skip'],
    ['test', 'skipIf'],
    ['it.concurrent', 'only'],
    ['it', 'todo'],
  ])('refuses %s with .%s', (call, how) => {
    const root = repositoryWith({
      'src/a.test.ts': `\n${call}.${how}('x', () => {})`,
      'test/b.test.ts': `it('can skip( and be the only one', () => { list.skip(1) })`,
    })
    expect(checkSkippedTests(root)).toEqual([`src/a.test.ts:2 uses .${how}: every test must run`])
  })
})

describe('examples on PostgreSQL', () => {
  it('have a schema of their own each', () => {
    const root = repositoryWith({
      'examples/a/outbox.ts': `postgresStore({ pool, schema: 'a_outbox' })`,
      'examples/b/outbox.ts': `postgresStore({ pool, schema: 'a_outbox' })`,
      'examples/c/outbox.ts': 'postgresStore({ pool })',
    })
    expect(checkExampleSchemas(root)).toEqual([
      'examples/b/outbox.ts has the schema of examples/a/outbox.ts; name one of its own',
      'examples/c/outbox.ts keeps its outbox in the default schema; name one of its own',
    ])
  })
})

describe('error codes', () => {
  const source = `export const ERROR_CODES = { a: 'POSTHASTE_A_ONE', b: 'POSTHASTE_B' } as const`

  it('are all in docs/errors.md, and no others', () => {
    const root = repositoryWith({
      'src/core/errors.ts': source,
      'docs/errors.md': '## `POSTHASTE_A_ONE`\n\nSet POSTHASTE_URL.\n\n| `POSTHASTE_OLD` | gone |\n',
    })
    expect(checkErrorCodes(root)).toEqual([
      'docs/errors.md does not list POSTHASTE_B of src/core/errors.ts',
      'docs/errors.md lists POSTHASTE_OLD, which src/core/errors.ts does not have',
    ])
  })

  it('are not looked for while there is no such page', () => {
    expect(checkErrorCodes(repositoryWith({ 'src/core/errors.ts': source }))).toEqual([])
  })
})
