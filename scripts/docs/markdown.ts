/** One document as HTML: headings with anchors, highlighted code, links that the caller turns into addresses of the site. */
import hljs from 'highlight.js'
import { Marked } from 'marked'

export interface Heading {
  readonly depth: number
  readonly id: string
  readonly html: string
}

/** What stands below one heading, as text, for the search. */
export interface Section {
  readonly id: string
  readonly heading: string
  readonly text: string
}

export interface Rendered {
  readonly title: string
  /** The first paragraph, as text. */
  readonly summary: string
  readonly html: string
  readonly headings: readonly Heading[]
  readonly sections: readonly Section[]
}

const LANGUAGES: Readonly<Record<string, string>> = {
  ts: 'typescript',
  mts: 'typescript',
  mjs: 'javascript',
  sh: 'bash',
  toml: 'ini',
  yml: 'yaml',
  svg: 'xml',
  h: 'c',
  pml: 'c',
}

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

export const highlight = (code: string, name: string): string => {
  const language = LANGUAGES[name] ?? name
  return hljs.getLanguage(language) === undefined
    ? escapeHtml(code)
    : hljs.highlight(code, { language, ignoreIllegals: true }).value
}

/**
 * Command lines as they are in documents: hljs knows the words of the shell itself, of which they have hardly any. Named
 * groups are the classes; a command is the first word of a line, after variables that are set for it, or after `|`, `&&` and `;`.
 */
const COMMAND_LINE = new RegExp(
  [
    String.raw`(?<comment>(?<=^|\s)#.*$)`,
    String.raw`(?<string>"(?:[^"\\]|\\.)*"|'[^']*')`,
    String.raw`(?<variable>\$\w+|\$\{[^}]*\}|(?<=^|\s)[A-Z_]+(?==))`,
    String.raw`(?<attr>(?<=\s)--?[A-Za-z][\w-]*)`,
    String.raw`(?<title>(?<=(?<!\\\n)^(?:[A-Z_]+=\S+ )*|(?:[|;]|&&) )[\w./@-]+(?=\s|$))`,
  ].join('|'),
  'gm',
)

const commandLines = (code: string): string => {
  let [html, at] = ['', 0]
  for (const match of code.matchAll(COMMAND_LINE)) {
    const [kind] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? ['']
    const text = escapeHtml(match[0])
    html += `${escapeHtml(code.slice(at, match.index))}<span class="hljs-${kind}">${text}</span>`
    at = match.index + match[0].length
  }
  return html + escapeHtml(code.slice(at))
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&quot;': '"',
  '&#39;': "'",
  '&amp;': '&',
}

export const textOf = (html: string): string =>
  html
    .replace(/<\/?(?:a|code|em|strong|span)\b[^>]*>/g, '')
    .replace(/<[^>]+>/g, ' ')
    .replace(/&(?:lt|gt|quot|#39|amp);/g, (entity) => ENTITIES[entity] ?? entity)
    .replace(/\s+/g, ' ')
    .trim()

/** As GitHub makes them, so that links hold there and here: lower case, without punctuation, spaces as hyphens. */
const slugOf = (text: string): string =>
  text
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')

const ARROW = /^(\S+?)(?:[[({].*?[\])}])? --+>(?:\|(.+?)\|)? ?([^\s[({:]+|\[\*\])[^:]*(?:: (.*))?$/

/** Diagrams are drawn by a library larger than this site, so they are shown as what they say: a list of arrows. */
const diagram = (code: string): string => {
  const rows = code
    .split('\n')
    .map((line) => ARROW.exec(line.trim()))
    .filter((match) => match !== null)
    .map(([, from = '', before, to = '', after]) => [from, to, before ?? after ?? ''] as const)
  const name = (state: string, end: string): string => (state === '[*]' ? end : state)
  const cells = rows.map(
    ([from, to, when]) =>
      `<tr><td><code>${escapeHtml(name(from, 'begin'))}</code></td><td>→ <code>${escapeHtml(name(to, 'end'))}</code></td><td>${escapeHtml(when)}</td></tr>`,
  )
  return `<table><thead><tr><th>from</th><th>to</th><th>when</th></tr></thead><tbody>${cells.join('')}</tbody></table>\n`
}

const NOTES: Readonly<Record<string, string>> = {
  run: 'a test runs this',
  compiled: 'a test compiles this',
  output: 'prints',
}

const codeBlock = (text: string, info: string): string => {
  const [language = '', ...flags] = info.split(/\s+/)
  if (language === 'mermaid') return diagram(text)
  const [first = '', name] = /^\/\/ ([\w.-]+\.ts)\n/.exec(text) ?? []
  const notes = [name, ...flags.map((flag) => NOTES[flag])].filter((note) => note !== undefined)
  const code = text.slice(first.length)
  const html = language === 'sh' ? commandLines(code) : highlight(code, language)
  const caption = notes.length === 0 ? '' : `<figcaption>${escapeHtml(notes.join(' · '))}</figcaption>`
  return `<figure class="code${flags.includes('output') ? ' output' : ''}">${caption}<pre><code>${html}</code></pre></figure>\n`
}

const sectionsOf = (html: string): Section[] =>
  html
    .split(/(?=<h[1-4] id=)/)
    .map((part) => ({ part, head: /^<h[1-4] id="([^"]*)">([\s\S]*?)<\/h[1-4]>/.exec(part) }))
    .flatMap(({ part, head }) =>
      head === null
        ? []
        : [{ id: head[1] ?? '', heading: textOf(head[2] ?? ''), text: textOf(part.slice(head[0].length)) }],
    )
    .map((section) => ({ ...section, heading: section.heading.replace(/ ?#$/, '') }))

/** `address` turns the target of a link into an address of the site. */
export const render = (markdown: string, address: (link: string) => string): Rendered => {
  const headings: Heading[] = []
  const used = new Map<string, number>()
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const html = this.parser.parseInline(tokens)
        const slug = slugOf(textOf(html))
        const before = used.get(slug) ?? 0
        used.set(slug, before + 1)
        const id = before === 0 ? slug : `${slug}-${before}`
        headings.push({ depth, id, html })
        return `<h${depth} id="${id}">${html}<a class="anchor" href="#${id}" aria-label="Link to this heading">#</a></h${depth}>\n`
      },
      code: ({ text, lang }) => codeBlock(text, lang ?? ''),
      link({ href, tokens }) {
        return `<a href="${escapeHtml(address(href))}">${this.parser.parseInline(tokens)}</a>`
      },
      image: ({ href, text }) => `<img src="${escapeHtml(address(href))}" alt="${escapeHtml(text)}">`,
      // Comments mark what is generated; the site needs none of them.
      html: ({ text }) => (text.trimStart().startsWith('<!--') ? '' : text),
    },
  })
  const html = (marked.parse(markdown, { async: false }) as string)
    .replaceAll('<table>', '<div class="table"><table>')
    .replaceAll('</table>', '</table></div>')
  const [first] = headings
  return {
    title: first === undefined ? '' : textOf(first.html),
    summary: textOf(/<p>([\s\S]*?)<\/p>/.exec(html)?.[1] ?? ''),
    html,
    headings,
    sections: sectionsOf(html),
  }
}
