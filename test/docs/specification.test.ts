import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT, readPage } from './code-blocks.ts'

const PAGE = 'docs/specification.md'
const COUNTS = { A: 23, B: 13, C: 27, D: 8, E: 2, F: 8, G: 7, H: 8 }

const text = readPage(PAGE)
const rows = [...text.matchAll(/^\| ([A-H]\d+) \| (.+) \| (.+) \|$/gm)]

describe('the specification', () => {
  it('has every row once, in order', () => {
    const expected = Object.entries(COUNTS).flatMap(([part, count]) =>
      Array.from({ length: count }, (_, index) => `${part}${index + 1}`),
    )
    expect(rows.map(([, id]) => id)).toEqual(expected)
    for (const id of expected) expect(text.match(new RegExp(`\\b${id}\\b`, 'g')), id).toHaveLength(1)
  })

  it('says for each row where it is met, or which part will bring it', () => {
    const vague = rows.filter(([, , , where = '']) => !/`|\]\(|planned with/.test(where))
    expect(vague.map(([, id]) => id)).toEqual([])
  })

  it('leaves nothing open but the dashboard', () => {
    const open = rows.filter(([, , , where = '']) => where.includes('planned'))
    expect(open.map(([, id]) => id)).toEqual(['G7'])
    expect(open[0]?.[3]).toMatch(/the dashboard is planned$/)
  })

  it('links to files and to headings that exist', () => {
    const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
    const broken = links.filter((link) => {
      const [path = '', anchor] = link.split('#')
      const file = join(ROOT, dirname(PAGE), path)
      if (!existsSync(file)) return true
      return anchor !== undefined && !headingsOf(path).includes(anchor)
    })
    expect(links.length).toBeGreaterThan(80)
    expect([...new Set(broken)]).toEqual([])
  })
})

/** Anchors as they are made of headings: lower case, without punctuation, spaces as hyphens. */
const headingsOf = (path: string): string[] =>
  [...readPage(join(dirname(PAGE), path)).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
