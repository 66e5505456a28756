/** Where the story is told: a picture that is redrawn in place, or plain lines where there is no such place. */
import type { WriteStream } from 'node:tty'
import type { Board } from './board.ts'
import { clock, LEAST_COLUMNS, paint } from './paint.ts'
import { wrap } from './wrap.ts'

export interface View {
  /** Draws the last picture and gives the cursor back. */
  close(): void
}

const FRAME_MS = 80
const HIDE = '\x1b[?25l'
const SHOW = '\x1b[?25h'
/** Terminals that know it show the frame at once; the others ignore it. */
const [BEGIN, END] = ['\x1b[?2026h', '\x1b[?2026l'] as const
const CLEAR_LINE = '\x1b[K'
const CLEAR_BELOW = '\x1b[J'

export const openView = (board: Board, out: WriteStream): View => {
  const lively = out.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb'
  // A picture that does not fit would scroll and cannot be drawn over.
  const fits = out.columns >= LEAST_COLUMNS && out.rows > paint(board, out.columns).length
  if (lively && fits) return openPicture(board, out)
  if (lively) out.write('enlarge the terminal to 100x30 for the live board\n')
  return openLines(board, out)
}

const openPicture = (board: Board, out: WriteStream): View => {
  let height = 0
  const draw = (): void => {
    const lines = paint(board, out.columns)
    const up = height > 0 ? `\x1b[${height}A\r` : ''
    out.write(`${BEGIN}${up}${lines.map((text) => `${text}${CLEAR_LINE}\n`).join('')}${CLEAR_BELOW}${END}`)
    height = lines.length
  }
  // After a resize lines may have wrapped: what was drawn is somewhere else, so begin on a clean screen.
  const resized = (): void => {
    out.write('\x1b[2J\x1b[H')
    height = 0
  }
  const restore = (): void => void out.write(SHOW)
  out.write(HIDE)
  process.once('exit', restore)
  out.on('resize', resized)
  draw()
  const timer = setInterval(draw, FRAME_MS)
  return {
    close() {
      clearInterval(timer)
      out.off('resize', resized)
      draw()
      process.off('exit', restore)
      restore()
    },
  }
}

const LINE_EVERY_MS = 1_000

const openLines = (board: Board, out: WriteStream): View => {
  const print = (atMs: number, text: string): void =>
    void out.write(`${wrap(`${clock(atMs)}  ${text}`, out.columns, '         ')}\n`)
  board.onTold(({ atMs, text }) => print(atMs, text))
  let shown = ''
  const progress = (): void => {
    const line =
      `published ${board.published} of ${board.total} · delivered ${board.sum('done')} (${board.sum('hot')} hot, ` +
      `${board.sum('cold')} cold) · waiting ${board.sum('waiting')} · retries ${board.sum('retries')} · dead ${board.sum('dead')}`
    if (line !== shown) print(board.elapsedMs, line)
    shown = line
  }
  const timer = setInterval(progress, LINE_EVERY_MS)
  return {
    close() {
      clearInterval(timer)
      progress()
    },
  }
}
