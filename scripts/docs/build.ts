/** Builds the site. A link that leads nowhere, a page that is in no topic: a problem, and the site is not done. */
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { join as joinPath, normalize } from 'node:path/posix'
import { addressOf, PAGES } from './contents.ts'
import { highlight, type Rendered, render } from './markdown.ts'
import { between, documentPage, sourcePage } from './template.ts'

const ASSETS = join(import.meta.dirname, 'assets')

export interface Site {
  readonly pages: number
  /** Files of the repository that documents link to, shown as they are. */
  readonly sources: number
  readonly links: number
  readonly problems: readonly string[]
}

interface Target {
  readonly path: string
  readonly anchor: string | null
}

interface Collected {
  readonly documents: ReadonlyMap<string, Rendered>
  readonly sources: ReadonlySet<string>
  readonly images: ReadonlySet<string>
  readonly links: readonly { readonly page: string; readonly link: string; readonly target: Target }[]
}

const isElsewhere = (link: string): boolean => /^[a-z][a-z+.-]*:/i.test(link)
const isImage = (path: string): boolean => /\.(svg|png)$/.test(path)
const sourceAddress = (path: string): string => `source/${path}.html`

const targetOf = (page: string, link: string): Target => {
  const [file = '', anchor] = link.split('#')
  const path = file === '' ? page : normalize(joinPath(dirname(page), decodeURIComponent(file)))
  return { path: path.replace(/\/$/, ''), anchor: anchor ?? null }
}

/** Where a target lies in the site. */
const placeOf = ({ path, anchor }: Target): string => {
  const place = PAGES.includes(path) ? addressOf(path) : isImage(path) ? path : sourceAddress(path)
  return anchor === null ? place : `${place}#${anchor}`
}

const collect = (root: string): Collected => {
  const links: Collected['links'][number][] = []
  const documents = new Map(
    PAGES.filter((page) => existsSync(join(root, page))).map((page) => {
      const address = (link: string): string => {
        if (isElsewhere(link)) return link
        const target = targetOf(page, link)
        links.push({ page, link, target })
        return link.startsWith('#') ? link : between(addressOf(page), placeOf(target))
      }
      return [page, render(readFileSync(join(root, page), 'utf8'), address)] as const
    }),
  )
  const others = new Set(links.map(({ target }) => target.path).filter((path) => !PAGES.includes(path)))
  const [images, sources] = [true, false].map(
    (wanted) => new Set([...others].filter((path) => isImage(path) === wanted)),
  )
  return { documents, links, images: images ?? new Set(), sources: sources ?? new Set() }
}

const pagesOnDisk = (root: string): string[] =>
  readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `docs/${path.replaceAll('\\', '/')}`)
    .sort()

const problemsOf = (root: string, { documents, links }: Collected): string[] => {
  const forgotten = pagesOnDisk(root).filter((page) => !PAGES.includes(page))
  const absent = PAGES.filter((page) => !documents.has(page))
  const dead = links.flatMap(({ page, link, target: { path, anchor } }) => {
    if (!existsSync(join(root, path))) return [`${page}: ${link} leads to no file`]
    if (anchor === null) return []
    const headings = documents.get(path)?.headings ?? []
    return headings.some(({ id }) => id === anchor) ? [] : [`${page}: ${link} leads to no heading`]
  })
  return [
    ...forgotten.map((page) => `${page} is in no topic of scripts/docs/contents.ts`),
    ...absent.map((page) => `${page} is in a topic of scripts/docs/contents.ts, and does not exist`),
    ...new Set(dead),
  ]
}

const writePage = (file: string, text: string): void => {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

const sourceHtml = (root: string, path: string): string => {
  const file = join(root, path)
  if (statSync(file).isDirectory()) return readdirSync(file).sort().join('\n')
  return highlight(readFileSync(file, 'utf8'), /\.(\w+)$/.exec(path)?.[1] ?? '')
}

/** A script instead of JSON: pages that were opened from the disk may load it too. */
const searchIndex = (documents: ReadonlyMap<string, Rendered>): string => {
  const entries = [...documents].flatMap(([page, { title, sections }]) =>
    sections.map(({ id, heading, text }, index) => ({
      to: index === 0 ? addressOf(page) : `${addressOf(page)}#${id}`,
      page: title,
      heading,
      text,
    })),
  )
  return `window.searchIndex = ${JSON.stringify(entries).replaceAll('<', '\\u003c')}\n`
}

export const buildSite = (root: string, out: string): Site => {
  const found = collect(root)
  const { documents, sources, images, links } = found
  const problems = problemsOf(root, found)
  const site = { pages: documents.size, sources: sources.size, links: links.length, problems }
  if (problems.length > 0) return site
  // Only what was built by this script is removed.
  if (existsSync(join(out, 'search-index.js'))) rmSync(out, { recursive: true })
  const titles = new Map([...documents].map(([page, { title }]) => [page, title]))
  for (const [page, rendered] of documents) {
    writePage(join(out, addressOf(page)), documentPage(page, rendered, titles))
  }
  for (const path of sources) {
    const address = sourceAddress(path)
    writePage(join(out, address), sourcePage(path, address, sourceHtml(root, path)))
  }
  for (const path of images) writePage(join(out, path), readFileSync(join(root, path), 'utf8'))
  cpSync(ASSETS, out, { recursive: true })
  writePage(join(out, 'search-index.js'), searchIndex(documents))
  return site
}
