/** Colours, tables and progress: only where somebody looks at a terminal. */
import type { WriteStream } from 'node:tty'
import { clean, cut } from './text.ts'

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
  /** Never made narrower, because people copy it: an id. */
  readonly whole?: true
}

const WIDE_GAP = 2
const NARROW_GAP = 1
const LEAST_FLEXIBLE = 8
/** Narrower than this a column says nothing, and is rather left out. */
const LEAST_USEFUL = 10
const LEAST = 3

interface Fitted {
  readonly widths: readonly number[]
  readonly gap: number
}

/** As wide as fits: the flexible one gives way first, then the gaps, then whichever is the widest of those that may. */
const narrow = (
  given: readonly number[],
  columns: readonly Pick<Column<never>, 'flexible' | 'whole'>[],
  width: number,
  least: number,
): Fitted | null => {
  const widths = [...given]
  const excess = (gap: number): number =>
    widths.reduce((sum, one) => sum + one, gap * (widths.length - 1)) - width
  const flexible = columns.findIndex((column) => column.flexible === true)
  const size = widths[flexible]
  if (size !== undefined)
    widths[flexible] = Math.max(Math.min(size, LEAST_FLEXIBLE), size - Math.max(0, excess(WIDE_GAP)))
  if (excess(WIDE_GAP) <= 0) return { widths, gap: WIDE_GAP }
  while (excess(NARROW_GAP) > 0) {
    const sizes = widths.map((one, index) => (columns[index]?.whole === true ? 0 : one))
    const widest = Math.max(...sizes)
    if (widest <= least) return null
    widths[sizes.indexOf(widest)] = widest - 1
  }
  return { widths, gap: NARROW_GAP }
}

/** All columns if they fit, else the first ones. */
const fit = (
  given: readonly number[],
  columns: readonly Pick<Column<never>, 'flexible' | 'whole'>[],
  width: number,
): Fitted => {
  for (const least of [LEAST_USEFUL, LEAST])
    for (let count = given.length; count > 0; count -= 1) {
      const fitted = narrow(given.slice(0, count), columns, width, least)
      if (fitted !== null) return fitted
    }
  return { widths: given.slice(0, 1), gap: NARROW_GAP }
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
  const { widths, gap: columnsApart } =
    width === null ? { widths: wanted, gap: WIDE_GAP } : fit(wanted, columns, width)
  const gap = ' '.repeat(columnsApart)
  const shape = (text: string, index: number): string => {
    const size = widths[index] ?? 0
    const short = cut(text, size)
    if (columns[index]?.align === 'right') return short.padStart(size)
    return index === columns.length - 1 ? short : short.padEnd(size)
  }
  const shown = columns.slice(0, widths.length)
  const header = shown.map(({ title }, index) => paint('dim', shape(title, index))).join(gap)
  const body = cells.map((row, at) =>
    row
      .slice(0, widths.length)
      .map((text, index) => {
        const colour = columns[index]?.colour?.(rows[at] as Row) ?? null
        const fitted = shape(text, index)
        return colour === null ? fitted : paint(colour, fitted)
      })
      .join(gap)
      .trimEnd(),
  )
  return [header.trimEnd(), ...body]
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
