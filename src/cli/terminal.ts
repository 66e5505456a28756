/** Colours, tables and progress: only where somebody looks at a terminal. */
import type { WriteStream } from 'node:tty'
import { clean, cut, cutMiddle } from './text.ts'

const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, cyan: 36 } as const
export type Colour = keyof typeof CODES
export type Paint = (colour: Colour, text: string) => string

type Output = Pick<WriteStream, 'write'> & { readonly isTTY?: boolean; readonly columns?: number }

export const wantsColour = (
  stream: { readonly isTTY?: boolean },
  environment: Readonly<Record<string, string | undefined>>,
  refused: boolean,
): boolean => {
  if (refused || (environment.NO_COLOR ?? '') !== '' || environment.TERM === 'dumb') return false
  return stream.isTTY === true || (environment.FORCE_COLOR ?? '0') !== '0'
}

export const painter =
  (colours: boolean): Paint =>
  (colour, text) =>
    colours && text !== '' ? `\u001b[${CODES[colour]}m${text}\u001b[0m` : text

export interface Column<Row> {
  readonly title: string
  readonly text: (row: Row) => string
  readonly colour?: (row: Row) => Colour | null
  readonly align?: 'right'
  /** Gives way first when the terminal is narrow. */
  readonly flexible?: true
  /** Cut in its middle, because names begin alike and differ at their ends. A flexible one stays as wide as tells its rows apart. */
  readonly name?: true
  /** Never made narrower, because people copy it: an id. */
  readonly whole?: true
}

const WIDE_GAP = 2
const NARROW_GAP = 1
const LEAST_FLEXIBLE = 8
/** Narrower than this a column says nothing, and is rather left out. */
const LEAST_USEFUL = 10
const LEAST = 3
/** Names may take a third of the line before others have to go for them. */
const MOST_FOR_NAMES = 3

interface Fitted {
  readonly widths: readonly number[]
  readonly gap: number
}

type Shape = Pick<Column<never>, 'flexible' | 'whole' | 'name'>

/** The least width at which no two of them look alike; where that is too much, nothing is gained. */
const tellingWidth = (texts: readonly string[], most: number): number => {
  const all = [...new Set(texts)]
  for (let size = LEAST_FLEXIBLE; size <= most; size += 1)
    if (new Set(all.map((text) => cutMiddle(text, size))).size === all.length) return size
  return Math.min(most, LEAST_FLEXIBLE)
}

/**
 * As wide as fits: the flexible one gives way first, then the gaps, then whichever is the widest of those that may. Of a
 * name more is seen where the gaps are narrow, so there they go first.
 * @param telling how wide a flexible name stays
 */
const narrow = (
  given: readonly number[],
  columns: readonly Shape[],
  width: number,
  least: number,
  telling: number,
): Fitted | null => {
  const widths = [...given]
  const excess = (gap: number): number =>
    widths.reduce((sum, one) => sum + one, gap * (widths.length - 1)) - width
  const flexible = columns.findIndex((column) => column.flexible === true)
  const size = widths[flexible]
  const isName = columns[flexible]?.name === true
  const floor = Math.min(size ?? 0, isName ? telling : LEAST_FLEXIBLE)
  for (const gap of [WIDE_GAP, NARROW_GAP]) {
    if (size !== undefined) {
      widths[flexible] = size
      widths[flexible] = Math.max(floor, size - Math.max(0, excess(gap)))
    }
    const isWorse = gap === WIDE_GAP && isName && widths[flexible] !== size
    if (excess(gap) <= 0 && !isWorse) return { widths, gap }
  }
  while (excess(NARROW_GAP) > 0) {
    const sizes = widths.map((one, index) => {
      const isFixed = columns[index]?.whole === true || (isName && index === flexible && one <= floor)
      return isFixed ? 0 : one
    })
    const widest = Math.max(...sizes)
    if (widest <= least) return null
    widths[sizes.indexOf(widest)] = widest - 1
  }
  return { widths, gap: NARROW_GAP }
}

/** All columns if they fit. Else the last ones go that people neither copy nor came for, and at worst all but the first. */
const fitColumns = (
  wanted: readonly number[],
  columns: readonly Shape[],
  width: number,
  telling: number,
): Fitted & { readonly shown: readonly number[] } => {
  for (const [least, leastName] of [
    [LEAST_USEFUL, telling],
    [LEAST, LEAST],
  ] as const) {
    const shown = columns.map((_, index) => index)
    while (shown.length > 0) {
      const sizes = shown.map((index) => wanted[index] ?? 0)
      const fitted = narrow(
        sizes,
        shown.map((index) => columns[index] as Shape),
        width,
        least,
        leastName,
      )
      if (fitted !== null) return { ...fitted, shown }
      const last = shown.findLastIndex(
        (index, at) => at > 0 && columns[index]?.flexible !== true && columns[index]?.whole !== true,
      )
      shown.splice(last < 0 ? -1 : last, 1)
    }
  }
  return { widths: wanted.slice(0, 1), gap: NARROW_GAP, shown: [0] }
}

/** Lines of a table; on a terminal no wider than it. */
export const tableLines = <Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  paint: Paint,
  width: number | null,
): readonly string[] => {
  const cells = rows.map((row) => columns.map(({ text }) => clean(text(row))))
  const wanted = columns.map(({ title }, index) =>
    Math.max(title.length, ...cells.map((row) => row[index]?.length ?? 0)),
  )
  const all = columns.map((_, index) => index)
  const named = columns.findIndex(({ flexible, name }) => flexible === true && name === true)
  const names = cells.map((row) => row[named] ?? '')
  const { widths, gap, shown } =
    width === null
      ? { widths: wanted, gap: WIDE_GAP, shown: all }
      : fitColumns(wanted, columns, width, tellingWidth(names, Math.floor(width / MOST_FOR_NAMES)))
  const line = (cellOf: (index: number, shape: (text: string) => string) => string): string =>
    shown
      .map((index, at) => {
        const size = widths[at] ?? 0
        return cellOf(index, (text) => {
          const short = columns[index]?.name === true ? cutMiddle(text, size) : cut(text, size)
          if (columns[index]?.align === 'right') return short.padStart(size)
          return at === shown.length - 1 ? short : short.padEnd(size)
        })
      })
      .join(' '.repeat(gap))
      .trimEnd()
  const header = line((index, shape) => paint('dim', shape(columns[index]?.title ?? '')))
  const body = cells.map((row, at) =>
    line((index, shape) => {
      const colour = columns[index]?.colour?.(rows[at] as Row) ?? null
      const fitted = shape(row[index] ?? '')
      return colour === null ? fitted : paint(colour, fitted)
    }),
  )
  const left = columns.filter((_, index) => !shown.includes(index)).map(({ title }) => title)
  const note = left.length === 0 ? [] : [paint('dim', cut(`no room for: ${left.join(', ')}`, width ?? 80))]
  return [header, ...body, ...note]
}

const BAR_COLUMNS = 24

/** One line that is written over again; nothing at all where nobody looks. */
export class Progress {
  readonly #stream: Output
  readonly #label: string
  readonly #shown: boolean
  #last = 0

  constructor(stream: Output, label: string, quiet: boolean) {
    this.#stream = stream
    this.#label = label
    this.#shown = stream.isTTY === true && !quiet
  }

  update(done: number, total: number): void {
    if (!this.#shown) return
    const now = performance.now()
    if (done < total && now - this.#last < 50) return
    this.#last = now
    const share = total === 0 ? 1 : Math.min(1, done / total)
    const full = Math.round(share * BAR_COLUMNS)
    const bar = `${'█'.repeat(full)}${'░'.repeat(BAR_COLUMNS - full)}`
    const percent = `${Math.floor(share * 100)}`.padStart(3)
    this.#stream.write(`\r\u001b[K${this.#label} ${bar} ${percent}%  ${done}/${total}`)
  }

  end(): void {
    if (this.#shown) this.#stream.write('\r\u001b[K')
  }
}
