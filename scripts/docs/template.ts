/** What stands around a page: header with search, contents, headings of this page, previous and next. */
import { relative } from 'node:path/posix'
import { addressOf, CONTENTS, HOME, PAGES } from './contents.ts'
import { escapeHtml, type Rendered } from './markdown.ts'

const MENU = '<svg viewBox="0 0 20 20" aria-hidden="true"><path d="M2 5h16M2 10h16M2 15h16"/></svg>'
const THEME =
  '<svg viewBox="0 0 20 20" aria-hidden="true"><circle cx="10" cy="10" r="7"/><path d="M10 3a7 7 0 0 1 0 14z" class="filled"/></svg>'

/** In the head, so that a page never flashes in the other colours first. */
const CHOSEN_THEME = `try{const t=localStorage.getItem('theme');if(t)document.documentElement.dataset.theme=t}catch{}`

/** From one page of the site to another; both work from a server and from the disk. */
export const between = (from: string, to: string): string => relative(from.replace(/[^/]*$/, '') || '.', to)

const layout = (address: string, title: string, summary: string, body: string): string => {
  const root = between(address, '.') || '.'
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<meta name="description" content="${escapeHtml(summary.slice(0, 200))}">
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${root}/site.css">
<script>${CHOSEN_THEME}</script>
<script src="${root}/site.js" data-root="${root}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the text</a>
<header>
<button class="icon" id="menu" aria-label="Contents" aria-expanded="false" aria-controls="contents">${MENU}</button>
<a class="brand" href="${root}/index.html">Posthaste</a>
<div class="search" role="search">
<input id="search" type="search" placeholder="Search" aria-label="Search the documentation" autocomplete="off" spellcheck="false">
<kbd>/</kbd>
<ol id="results" hidden></ol>
</div>
<button class="icon" id="theme" aria-label="Light or dark">${THEME}</button>
</header>
${body}
</body>
</html>
`
}

/** In the list of a topic its own words need not be repeated. */
const shortName = (title: string): string => {
  const rest = title.replace(/^Coming from (?:an? )?/, '')
  return rest === title || rest === 'pg-boss' ? rest : `${rest.charAt(0).toUpperCase()}${rest.slice(1)}`
}

const navigation = (address: string, titles: ReadonlyMap<string, string>): string =>
  CONTENTS.map(({ title, pages }) => {
    const open = pages.some((page) => addressOf(page) === address)
    const items = pages.map((page) => {
      const to = addressOf(page)
      const here = to === address ? ' aria-current="page"' : ''
      const name = page === HOME ? 'Overview' : shortName(titles.get(page) ?? page)
      return `<li><a href="${between(address, to)}"${here}>${escapeHtml(name)}</a></li>`
    })
    return `<details${open ? ' open' : ''}><summary>${escapeHtml(title)}</summary><ul>${items.join('')}</ul></details>`
  }).join('\n')

const onThisPage = ({ headings }: Rendered): string => {
  const listed = headings.filter(({ depth }) => depth === 2 || depth === 3)
  if (listed.length < 2) return ''
  const items = listed.map(
    ({ depth, id, html }) => `<li class="depth-${depth}"><a href="#${id}">${html}</a></li>`,
  )
  return `<p>On this page</p><ul>${items.join('')}</ul>`
}

const neighbours = (page: string, address: string, titles: ReadonlyMap<string, string>): string => {
  const index = PAGES.indexOf(page)
  const link = (other: string | undefined, side: string, word: string): string =>
    other === undefined
      ? '<span></span>'
      : `<a class="${side}" href="${between(address, addressOf(other))}"><small>${word}</small>${escapeHtml(titles.get(other) ?? other)}</a>`
  return `${link(PAGES[index - 1], 'previous', 'Previous')}${link(PAGES[index + 1], 'next', 'Next')}`
}

export const documentPage = (
  page: string,
  rendered: Rendered,
  titles: ReadonlyMap<string, string>,
): string => {
  const address = addressOf(page)
  const title = page === HOME ? 'Posthaste: a transactional outbox' : `${rendered.title} – Posthaste`
  return layout(
    address,
    title,
    rendered.summary,
    `<div class="columns">
<nav id="contents" aria-label="Contents">${navigation(address, titles)}</nav>
<main id="content">
${rendered.html}
<nav class="neighbours" aria-label="Previous and next">${neighbours(page, address, titles)}</nav>
</main>
<aside aria-label="On this page">${onThisPage(rendered)}</aside>
</div>`,
  )
}

/** A file of the repository that a document links to. `html` is its highlighted text. */
export const sourcePage = (path: string, address: string, html: string): string =>
  layout(
    address,
    `${path} – Posthaste`,
    path,
    `<main id="content" class="source"><h1><code>${escapeHtml(path)}</code></h1>
<figure class="code"><pre><code>${html}</code></pre></figure></main>`,
  )
