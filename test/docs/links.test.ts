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
})
