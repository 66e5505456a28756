/** Links between the documents lead somewhere, in the repository and, for the README, in the package too. */
import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { describe, expect, it } from 'vitest'
import { PAGES, ROOT, readPage } from './code-blocks.ts'

const linksOf = (page: string): string[] =>
  [...readPage(page).matchAll(/\]\(([^)\s#]+)[^)]*\)/g)]
    .map(([, link = '']) => link)
    .filter((link) => !/^\w+:/.test(link))
    .map((link) => normalize(join(dirname(page), link)))

describe('links', () => {
  it('lead to files that exist', () => {
    const broken = PAGES.flatMap((page) =>
      linksOf(page)
        .filter((link) => !existsSync(join(ROOT, link)))
        .map((link) => `${page}: ${link}`),
    )
    expect(broken).toEqual([])
  })

  it('of the README lead to what is shipped', () => {
    const { files } = JSON.parse(readPage('package.json')) as { files: string[] }
    const links = linksOf('README.md')
    const missing = links.filter(
      (link) => !files.some((file) => link === file || link.startsWith(`${file}/`)),
    )
    expect(links.length).toBeGreaterThan(5)
    expect(missing).toEqual([])
  })

  it('of other documents lead to what is shipped, or to what the README says that only the repository has', () => {
    const { files } = JSON.parse(readPage('package.json')) as { files: string[] }
    const shipped = new Set(files)
    const left = PAGES.flatMap(linksOf)
      .map((link) => link.split('/')[0] as string)
      .filter((first) => !shipped.has(first))
    const said = readPage('README.md')
      .split('\n\n')
      .find((text) => text.startsWith('The package has these documents without the code'))
    const named = [...(said ?? '').matchAll(/`([\w.]+)`/g)].map(([, name]) => name)
    expect(named.sort()).toEqual([...new Set(left)].sort())
  })
})
