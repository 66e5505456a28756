/** The picture of a board, as lines of styled text that are never wider than they may be. */
import { styleText } from 'node:util'
import type { Board, DestinationBoard } from './board.ts'

type Style = Parameters<typeof styleText>[0]
export type Segment = readonly [text: string, style?: Style]

const LEVELS = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'] as const
/** Narrower, and columns of the table would be cut. */
export const LEAST_COLUMNS = 80
const BAR_WIDTH = 32
const TOLD_LINES = 9

const grouped = (value: number): string => Math.round(value).toLocaleString('en-US')

export const clock = (ms: number): string => {
  const seconds = Math.floor(ms / 1_000)
  const tenths = Math.floor((ms % 1_000) / 100)
  return `${String(Math.floor(seconds / 60)).padStart(2, '0')}:${String(seconds % 60).padStart(2, '0')}.${tenths}`
}

/** Styles are applied after cutting, so that an escape sequence is never cut in two. */
const line = (width: number, ...segments: readonly Segment[]): string => {
  const whole = segments.reduce((sum, [part]) => sum + [...part].length, 0) <= width
  let left = whole ? width : width - 1
  let text = ''
  for (const [part, style] of segments) {
    const visible = [...part].slice(0, Math.max(0, left)).join('')
    left -= [...visible].length
    text += style === undefined || visible === '' ? visible : styleText(style, visible)
  }
  return whole ? text : `${text}…`
}

const sparkline = (values: readonly number[]): string => {
  const highest = Math.max(1, ...values)
  return values
    .map((value) => (value === 0 ? ' ' : LEVELS[Math.min(7, Math.floor((value / highest) * 7.99))]))
    .join('')
}

const bar = (share: number): readonly Segment[] => {
  const full = Math.round(Math.min(1, share) * BAR_WIDTH)
  return [
    ['━'.repeat(full), 'cyan'],
    ['─'.repeat(BAR_WIDTH - full), 'dim'],
  ]
}

const BREAKER: Readonly<Record<DestinationBoard['breaker'], Segment>> = {
  closed: ['● closed', 'green'],
  open: ['○ open', 'red'],
  halfOpen: ['◐ half-open', 'yellow'],
}

const COLUMNS = [12, 8, 8, 9, 9, 9, 6] as const

const cell = (text: string, column: number): string => text.padStart(COLUMNS[column] ?? 10)

const row = (name: string, board: DestinationBoard, width: number): string => {
  const count = (value: number, column: number, style: Style): Segment => [
    cell(grouped(value), column),
    value === 0 ? 'dim' : style,
  ]
  return line(
    width,
    ['  '],
    [name.padEnd(COLUMNS[0]), 'bold'],
    count(board.hot, 1, 'yellow'),
    count(board.cold, 2, 'cyan'),
    count(board.queued, 3, 'white'),
    count(board.waiting, 4, 'white'),
    count(board.retries, 5, 'yellow'),
    count(board.dead, 6, 'red'),
    ['   '],
    BREAKER[board.breaker],
  )
}

const HEADINGS = ['delivered to', 'hot', 'cold', 'queued', 'waiting', 'retries', 'dead'] as const

const tableLines = (board: Board, width: number): string[] => [
  line(
    width,
    ['  '],
    [HEADINGS.map((text, i) => (i === 0 ? text.padEnd(COLUMNS[0]) : cell(text, i))).join(''), 'dim'],
    ['   breaker', 'dim'],
  ),
  ...[...board.destinations].map(([name, destination]) => row(name, destination, width)),
]

const milliseconds = (value: number | null): string => (value === null ? '–' : `${value.toFixed(1)} ms`)

const toldLines = (board: Board, width: number): string[] => {
  const recent = board.told.slice(-TOLD_LINES)
  const lines = recent.map(({ atMs, text }, i) =>
    line(width, [`  ${clock(atMs)}  `, 'dim'], [text, i === recent.length - 1 ? 'white' : 'dim']),
  )
  return [...lines, ...Array.from({ length: TOLD_LINES - lines.length }, () => '')]
}

export const paint = (board: Board, columns: number): string[] => {
  const width = Math.min(columns - 1, 110)
  const [hot, cold] = [board.sum('hot'), board.sum('cold')]
  const share = hot + cold === 0 ? 0 : (hot / (hot + cold)) * 100
  const label = (text: string): Segment => [`  ${text.padEnd(13)}`, 'dim']
  const amount = (text: string): Segment => [text.padStart(9), 'bold']
  const title = '  posthaste'
  const place = ' · a shop and its outbox in one SQLite file'
  const right = `${board.kills > 0 ? `killed ${board.kills} times · ` : ''}${clock(board.elapsedMs)}`
  const gap = ' '.repeat(Math.max(2, width - title.length - place.length - right.length))
  return [
    '',
    line(width, [title, ['bold', 'cyan']], [place, 'dim'], [gap], [right, 'dim']),
    '',
    line(width, ['  ▌ ', 'cyan'], [board.now, 'bold']),
    '',
    line(
      width,
      label('published'),
      amount(grouped(board.published)),
      ['   '],
      ...bar(board.published / board.total),
      [` of ${grouped(board.total)} events`, 'dim'],
    ),
    line(
      width,
      label('delivered'),
      amount(grouped(board.sum('done'))),
      ['   '],
      [sparkline(board.history().slice(-BAR_WIDTH)), 'green'],
      [` ${grouped(board.ratePerSecond())} a second`, 'dim'],
    ),
    line(
      width,
      label('hot'),
      amount(`${share.toFixed(1)} %`),
      ['   '],
      ['of all deliveries, disturbed ones included', 'dim'],
    ),
    line(
      width,
      label('latency'),
      amount(milliseconds(board.latency(0.5))),
      ['   '],
      [`median from commit to listener, hot; p99 ${milliseconds(board.latency(0.99))}`, 'dim'],
    ),
    line(
      width,
      label('rolled back'),
      amount(grouped(board.rolledBack)),
      ['   '],
      ['events of failed transactions; nobody hears of them', 'dim'],
    ),
    '',
    ...tableLines(board, width),
    '',
    ...toldLines(board, width),
  ]
}
