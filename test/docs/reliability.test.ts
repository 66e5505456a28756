import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT, readPage } from './code-blocks.ts'

const PAGE = 'docs/reliability.md'
const ENTRIES = 77

const rows = readPage(PAGE)
  .split('\n')
  .map((line) => line.split('|').map((cell) => cell.trim()))
  .filter(([, number = '']) => /^\d+$/.test(number))
  .map(([, number, , here = '', where = '']) => ({ number: Number(number), here, where }))

const testsIn = (where: string): string[] =>
  [...where.matchAll(/\]\(([^)#\s]+\.ts)\)/g)].map(([, link = '']) => join(dirname(PAGE), link))

/** A title begins with the numbers of what it is about. */
const isAbout = (file: string, number: number): boolean =>
  new RegExp(`['"\`](?:\\[\\d+\\])*\\[${number}\\]`).test(readPage(file))

describe('the page of what can go wrong', () => {
  it('has every entry once, in order', () => {
    expect(rows.map(({ number }) => number)).toEqual(Array.from({ length: ENTRIES }, (_, i) => i + 1))
  })

  it('links a test, or says why there is none', () => {
    const vague = rows.filter(({ where }) => testsIn(where).length === 0 && !/^no test: \w/.test(where))
    expect(vague.map(({ number }) => number)).toEqual([])
  })

  it('says what happens here', () => {
    const silent = rows.filter(({ here }) => here === '')
    expect(silent.map(({ number }) => number)).toEqual([])
  })

  it('plans nothing that the specification does not plan', () => {
    expect(readPage(PAGE)).not.toMatch(/planned/i)
    const [, planned = ''] = /^Planned, and not here yet: ([^.]+)\./m.exec(readPage('README.md')) ?? []
    expect(planned).toBe('a dashboard')
    expect(readPage('docs/specification.md')).toContain('"planned": only the dashboard does')
  })

  it('links files that exist and have the number in a title', () => {
    const linked = rows.flatMap(({ number, where }) => testsIn(where).map((file) => ({ number, file })))
    expect(linked.filter(({ file }) => !existsSync(join(ROOT, file)))).toEqual([])
    // The suite is run through a pooler by a file that has no titles of its own.
    const whole = new Set(['test/stores/postgres-pgbouncer.test.ts'])
    const wrong = linked.filter(({ number, file }) => !whole.has(file) && !isAbout(file, number))
    expect(wrong).toEqual([])
  })
})
