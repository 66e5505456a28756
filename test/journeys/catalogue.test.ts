/** Every entry of the failure catalogue that concerns the core and SQLite has a test that carries its number. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const REQUIRED = [
  ...[1, 4, 5, 6, 7, 8, 12],
  ...[14, 15, 16, 17, 18, 19, 20, 22, 24, 25, 26, 27, 28],
  ...[41, 42, 43, 46, 51],
  ...[67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77],
]

/** The title is the first thing in a text: of a test, of a group of tests, or of a case of an exported suite. */
const TITLE = /(['"`])((?:\[\d+\])+) (?:(?!\1).)+\1/g

const textsOf = (folder: string, isTest: (path: string) => boolean): string[] =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.ts') && !path.includes('node_modules') && isTest(path))
    .map((path) => readFileSync(join(ROOT, folder, path), 'utf8'))

const covered = (): Set<number> => {
  const texts = [
    ...textsOf('test', (path) => path.endsWith('.test.ts')),
    ...textsOf('src', (path) => path.endsWith('.test.ts') || path.startsWith('testing/suites/')),
  ]
  const numbers = new Set<number>()
  for (const text of texts) {
    for (const [, , tags] of text.matchAll(TITLE)) {
      for (const [, number] of (tags ?? '').matchAll(/\[(\d+)\]/g)) numbers.add(Number(number))
    }
  }
  return numbers
}

describe('the failure catalogue', () => {
  it('has a test for every entry', () => {
    const numbers = covered()
    expect(REQUIRED.filter((number) => !numbers.has(number))).toEqual([])
  })
})
