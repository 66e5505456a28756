/** What plots of this project are made of: SVG written by hand, with scales, texts and a frame around them. */

export const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

export const count = (value: number): string => Math.round(value).toLocaleString('en-US')

export const text = (x: number, y: number, content: string, attributes = ''): string =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${escaped(content)}</text>`

export interface Scale {
  at(value: number): number
  readonly ticks: readonly number[]
}

/** The first and the last pixel. */
type Range = readonly [from: number, to: number]

/** The next of 1, 2 or 5 times a power of ten. */
const niceStep = (rough: number): number => {
  const power = 10 ** Math.floor(Math.log10(rough))
  return ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10) * power
}

const TICKS = 5

export const linearScale = (highest: number, [from, to]: Range): Scale => {
  const step = niceStep(highest / TICKS)
  const end = Math.ceil(highest / step) * step
  const ticks = Array.from({ length: Math.round(end / step) + 1 }, (_, i) => i * step)
  return { at: (value) => from + (value / end) * (to - from), ticks }
}

export const logarithmicScale = (lowest: number, highest: number, [from, to]: Range): Scale => {
  const low = Math.floor(Math.log10(lowest))
  const high = Math.max(low + 1, Math.ceil(Math.log10(highest)))
  const ticks = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i))
  const share = (value: number): number => (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low)
  return { at: (value) => from + share(value) * (to - from), ticks }
}

export interface Frame {
  readonly title: string
  /** What is measured, its unit, and which way is better. */
  readonly subtitle: string
  readonly footer: string
  readonly width: number
  readonly height: number
}

export const framed = ({ title, subtitle, footer, width, height }: Frame, parts: readonly string[]): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif" font-size="13" fill="#1c2530" role="img">
<title>${escaped(title)}</title>
<rect width="${width}" height="${height}" fill="#ffffff"/>
${text(16, 28, title, 'font-size="17" font-weight="700"')}
${text(16, 49, subtitle, 'fill="#445"')}
${parts.join('\n')}
${text(16, height - 9, footer, 'font-size="11" fill="#667"')}
</svg>
`
