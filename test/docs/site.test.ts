/** `npm run docs`: the site is built, every link of it leads somewhere, and its pages ask nobody else for anything. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { join as joinPath, normalize } from 'node:path/posix'
import { afterAll, describe, expect, it } from 'vitest'
import { buildSite } from '../../scripts/docs/build.ts'
import { CONTENTS, PAGES } from '../../scripts/docs/contents.ts'
import { render } from '../../scripts/docs/markdown.ts'
import { serveSite } from '../../scripts/docs/serve.ts'
import { newFolder, ROOT } from './code-blocks.ts'

const folder = newFolder()
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const out = join(folder, 'site')
const site = buildSite(ROOT, out)
const files = readdirSync(out, { recursive: true, encoding: 'utf8' })
const pages = new Map(
  files.filter((file) => file.endsWith('.html')).map((file) => [file, readFileSync(join(out, file), 'utf8')]),
)

/** `href` and `src` of a page, without what is in its code. */
const targetsOf = (html: string): string[] =>
  [...html.matchAll(/<(?:a|link|script|img)\b[^>]*?\b(?:href|src)="([^"]*)"/g)].map(([, to = '']) => to)

describe('the site', () => {
  it('is built without a problem, with every page once', () => {
    expect(site.problems).toEqual([])
    expect(site.pages).toBe(PAGES.length)
    expect(new Set(PAGES).size).toBe(PAGES.length)
    expect(CONTENTS.every((topic) => topic.pages.length > 0)).toBe(true)
  })

  it('has no link and no anchor that leads nowhere', () => {
    const broken = [...pages].flatMap(([file, html]) =>
      targetsOf(html)
        .filter((to) => !/^[a-z]+:/.test(to))
        .filter((to) => {
          const [path = '', anchor] = to.split('#')
          const target = path === '' ? file : normalize(joinPath(dirname(file), path))
          if (!files.includes(target)) return true
          return anchor !== undefined && !pages.get(target)?.includes(` id="${anchor}"`)
        })
        .map((to) => `${file}: ${to}`),
    )
    expect(broken).toEqual([])
    expect(pages.size).toBe(site.pages + site.sources)
  })

  it('loads nothing from elsewhere', () => {
    const loaded = [...pages].flatMap(([file, html]) =>
      [...html.matchAll(/<(?:link|script|img|iframe)\b[^>]*\b(?:href|src)="(\w+:[^"]*)"/g)]
        .map(([, to = '']) => to)
        .filter((to) => !to.startsWith('data:'))
        .map((to) => `${file}: ${to}`),
    )
    expect(loaded).toEqual([])
    const css = readFileSync(join(out, 'site.css'), 'utf8')
    expect(css).not.toMatch(/@import|url\(/)
  })

  it('has a title, its place in the contents, and headings of each page', () => {
    const html = pages.get('delivery.html') ?? ''
    expect(html).toContain('<title>Delivery – Posthaste</title>')
    expect(html).toContain('<a href="delivery.html" aria-current="page">Delivery</a>')
    expect(html).toContain('<li class="depth-3"><a href="#retry-policies">Retry policies</a></li>')
    expect(html).toMatch(/class="previous" href="publishing.html".*class="next" href="nestjs.html"/s)
    expect(html).toContain('<span class="hljs-keyword">import</span>')
  })

  it('finds words in the text, with the heading that they are under', () => {
    const [, json = ''] =
      /^window\.searchIndex = (.*)$/m.exec(readFileSync(join(out, 'search-index.js'), 'utf8')) ?? []
    const entries = JSON.parse(json) as readonly { readonly to: string; readonly text: string }[]
    const found = entries.filter(({ text }) => text.includes('innodb_buffer_pool_size'))
    expect(found.map(({ to }) => to)).toContain('tuning.html#mysql-and-mariadb')
  })

  it('is served to this machine, and nothing beside it', async () => {
    const server = await serveSite(out, 0)
    try {
      const address = server.address()
      if (address === null || typeof address === 'string') throw new Error('no port')
      expect(address.address).toBe('127.0.0.1')
      const get = async (path: string): Promise<readonly [number, string | null]> => {
        const response = await fetch(`http://127.0.0.1:${address.port}${path}`)
        await response.arrayBuffer()
        return [response.status, response.headers.get('content-type')]
      }
      expect(await get('/')).toEqual([200, 'text/html; charset=utf-8'])
      expect(await get('/clients/pg.html')).toEqual([200, 'text/html; charset=utf-8'])
      expect(await get('/site.js')).toEqual([200, 'text/javascript; charset=utf-8'])
      expect((await get('/%2e%2e%2fpackage.json'))[0]).toBe(404)
      expect((await get('/nothing.html'))[0]).toBe(404)
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })
})

describe('what is wrong with the documents', () => {
  it('is named, and nothing is built', () => {
    const root = join(folder, 'wrong')
    mkdirSync(join(root, 'docs'), { recursive: true })
    writeFileSync(
      join(root, 'README.md'),
      '# A\n\n[good](#a) [b](docs/b.md) [c](docs/c.md#no) [d](#nowhere)\n',
    )
    writeFileSync(join(root, 'docs', 'c.md'), '# C\n')
    const { problems } = buildSite(root, join(root, 'out'))
    const about = problems.filter((problem) => !problem.endsWith('and does not exist'))
    expect(about).toEqual([
      'docs/c.md is in no topic of scripts/docs/contents.ts',
      'README.md: docs/b.md leads to no file',
      'README.md: docs/c.md#no leads to no heading',
      'README.md: #nowhere leads to no heading',
    ])
    expect(readdirSync(root)).not.toContain('out')
  })
})

describe('a page', () => {
  const same = (link: string): string => link

  it('has anchors as GitHub makes them, and numbers for those that come again', () => {
    const { headings } = render('# A `b.c` & d\n\n## Who, when?\n\n## Who, when?\n', same)
    expect(headings.map(({ id }) => id)).toEqual(['a-bc--d', 'who-when', 'who-when-1'])
  })

  it('escapes what is in code, and names the file', () => {
    const { html } = render('```ts run\n// a.ts\nif (1 < 2) alert("<b>")\n```\n', same)
    expect(html).toContain('a.ts · a test runs this')
    expect(html).not.toContain('<b>')
    expect(html).not.toContain('// a.ts')
  })

  it('tells commands, flags, variables and comments of a command line apart', () => {
    const { html } = render('```sh\nA=1 npx posthaste worker --once "$X" # <now>\n```\n', same)
    const part = (kind: string, text: string): string => `<span class="hljs-${kind}">${text}</span>`
    expect(html).toContain(
      `${part('variable', 'A')}=1 ${part('title', 'npx')} posthaste worker ${part('attr', '--once')} ` +
        `${part('string', '&quot;$X&quot;')} ${part('comment', '# &lt;now&gt;')}`,
    )
  })

  it('shows a diagram as the arrows that it has', () => {
    const { html } = render('```mermaid\nstateDiagram-v2\n  [*] --> pending: publish\n```\n', same)
    expect(html).toContain('<td><code>begin</code></td><td>→ <code>pending</code></td><td>publish</td>')
    const flow = render('```mermaid\nflowchart LR\n  a{key?} -->|none| b[(row)]\n```\n', same)
    expect(flow.html).toContain('<td><code>a</code></td><td>→ <code>b</code></td><td>none</td>')
  })
})
