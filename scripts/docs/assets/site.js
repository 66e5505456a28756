// Search, theme, menu, copy buttons and the mark in "On this page". Everything else works without it.
const root = document.currentScript.dataset.root
const byId = (id) => document.getElementById(id)
const page = document.documentElement

byId('theme').addEventListener('click', () => {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches
  const now = page.dataset.theme ?? (dark ? 'dark' : 'light')
  page.dataset.theme = now === 'dark' ? 'light' : 'dark'
  try {
    localStorage.setItem('theme', page.dataset.theme)
  } catch {
    // A browser that keeps nothing still changes this page.
  }
})

const menu = byId('menu')
menu.addEventListener('click', () => {
  const open = page.classList.toggle('menu-open')
  menu.setAttribute('aria-expanded', String(open))
})

for (const figure of document.querySelectorAll('figure.code:not(.output)')) {
  const button = document.createElement('button')
  button.className = 'copy'
  button.textContent = 'Copy'
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(figure.querySelector('code').textContent)
    button.textContent = 'Copied'
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 1500)
  })
  figure.append(button)
}

// The heading that is being read is marked in the list beside the text.
const marks = new Map(
  [...document.querySelectorAll('aside a')].map((link) => [
    decodeURIComponent(link.getAttribute('href').slice(1)),
    link,
  ]),
)
const headings = [...document.querySelectorAll('main :is(h2, h3)[id]')].filter(({ id }) => marks.has(id))
const mark = () => {
  const read = headings.filter((heading) => heading.getBoundingClientRect().top < 120).at(-1) ?? headings[0]
  for (const [id, link] of marks) link.classList.toggle('here', id === read?.id)
}
if (headings.length > 0) {
  addEventListener('scroll', mark, { passive: true })
  mark()
}
const contents = byId('contents')
const current = contents?.querySelector('[aria-current]')
// Moves the list alone: on a phone it lies below the text.
if (current) contents.scrollTop = Math.max(0, current.offsetTop - contents.clientHeight / 2)

// Search. The index is loaded when somebody looks for something.
const input = byId('search')
const results = byId('results')
let index = null

const loadIndex = () =>
  new Promise((resolve) => {
    if (index) return resolve(index)
    const script = document.createElement('script')
    script.src = `${root}/search-index.js`
    script.addEventListener('load', () => {
      index = window.searchIndex.map((entry) => ({
        ...entry,
        lowPage: entry.page.toLowerCase(),
        lowHeading: entry.heading.toLowerCase(),
        lowText: entry.text.toLowerCase(),
      }))
      resolve(index)
    })
    document.head.append(script)
  })

const scoreOf = (entry, words) => {
  let score = 0
  for (const word of words) {
    const inHeading = entry.lowHeading.includes(word)
    const inPage = entry.lowPage.includes(word)
    const at = entry.lowText.indexOf(word)
    if (!inHeading && !inPage && at === -1) return 0
    score += (inHeading ? 10 : 0) + (entry.lowHeading.startsWith(word) ? 5 : 0) + (inPage ? 4 : 0)
    score += at === -1 ? 0 : 1 + Math.min(3, entry.lowText.split(word).length - 1)
  }
  return score
}

const excerptOf = ({ text, lowText }, words) => {
  const at = Math.min(
    ...words.map((word) => lowText.indexOf(word)).filter((found) => found >= 0),
    text.length,
  )
  const from = Math.max(0, at === text.length ? 0 : at - 40)
  return `${from > 0 ? '…' : ''}${text.slice(from, from + 130)}${text.length > from + 130 ? '…' : ''}`
}

const element = (name, text) => {
  const made = document.createElement(name)
  made.textContent = text
  return made
}

const show = async () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean)
  if (words.length === 0) {
    results.hidden = true
    return
  }
  const entries = await loadIndex()
  const found = entries
    .map((entry) => ({ entry, score: scoreOf(entry, words) }))
    .filter(({ score }) => score > 0)
    .sort((one, other) => other.score - one.score)
    .slice(0, 12)
  results.replaceChildren(
    ...found.map(({ entry }) => {
      const link = document.createElement('a')
      link.href = `${root}/${entry.to}`
      const title = entry.heading === entry.page ? entry.page : `${entry.page} › ${entry.heading}`
      link.append(element('strong', title), element('span', excerptOf(entry, words)))
      const item = document.createElement('li')
      item.append(link)
      return item
    }),
  )
  if (found.length === 0) results.append(element('li', 'Nothing has all of these words.'))
  results.hidden = false
}

input.addEventListener('focus', () => void loadIndex())
input.addEventListener('input', () => void show())
document.addEventListener('keydown', (event) => {
  const typing = /^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName ?? '')
  if (event.key === '/' && !typing) {
    event.preventDefault()
    input.focus()
    return
  }
  if (event.key === 'Escape') {
    results.hidden = true
    return
  }
  const links = [...results.querySelectorAll('a')]
  if (results.hidden || links.length === 0) return
  const now = links.indexOf(document.activeElement)
  if (event.key === 'Enter' && document.activeElement === input) links[0].click()
  if (event.key === 'ArrowDown') links[Math.min(now + 1, links.length - 1)].focus()
  if (event.key === 'ArrowUp') (now <= 0 ? input : links[now - 1]).focus()
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') event.preventDefault()
})
document.addEventListener('click', (event) => {
  if (!event.target.closest('.search')) results.hidden = true
  if (event.target.closest('#contents a')) page.classList.remove('menu-open')
})
