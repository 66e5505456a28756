/** The tables of docs/migrations.md: which versions the tables have, and what the page was tested with. */
import { describe, expect, it } from 'vitest'
import { LATEST, PAGE } from '../migrations/page.ts'
import { readPage } from './code-blocks.ts'

const page = readPage(PAGE)
const { devDependencies } = JSON.parse(readPage('package.json')) as {
  readonly devDependencies: Readonly<Record<string, string>>
}

describe('the page about migrations', () => {
  it.each(Object.entries(LATEST))('knows the version of %s', (store, version) => {
    const [, said] = new RegExp(`^\\| \`posthaste/${store}\` \\|[^|]*\\| (\\d+) \\|`, 'm').exec(page) ?? []
    expect(Number(said)).toBe(version)
    const used = [...page.matchAll(new RegExp(`${store}Migration\\(\\{ to: (\\d+) \\}\\)`, 'g'))]
    expect([...new Set(used.map(([, to]) => Number(to)))]).toEqual(store === 'postgres' ? [version] : [])
  })

  it('names versions that are installed', () => {
    const rows = [...page.matchAll(/^\| \[\w+\]\(#\w+\) \| ([^|]+) \|/gm)].map(([, tested = '']) => tested)
    const said = rows.flatMap((row) => row.split(', ').map((one) => one.split(' ')))
    expect(said.length).toBeGreaterThan(5)
    for (const [name = '', version] of said) expect([name, devDependencies[name]]).toEqual([name, version])
  })
})
