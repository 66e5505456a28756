/** A line that moves while something is measured, and a table in the end. */
import type { WriteStream } from 'node:tty'

const WIDTH = 30
const EVERY_MS = 80

export const createProgress = (out: WriteStream) => {
  let drawnAt = 0
  const draw = (name: string, share: number): void => {
    const full = Math.round(Math.min(1, share) * WIDTH)
    out.write(`\r  ${'━'.repeat(full)}${'─'.repeat(WIDTH - full)}  ${name}\x1b[K`)
  }
  return {
    async step<T>(name: string, work: (advance: (share: number) => void) => Promise<T>): Promise<T> {
      if (!out.isTTY) return await work(() => undefined)
      draw(name, 0)
      try {
        return await work((share) => {
          if (performance.now() - drawnAt < EVERY_MS) return
          drawnAt = performance.now()
          draw(name, share)
        })
      } finally {
        out.write('\r\x1b[K')
      }
    },
  }
}

/** The first column is text, the others are figures. */
export const tableOf = (rows: readonly (readonly string[])[]): string => {
  const columns = Math.max(...rows.map((row) => row.length))
  const widths = Array.from({ length: columns }, (_, i) =>
    Math.max(...rows.map((row) => row[i]?.length ?? 0)),
  )
  const cell = (text: string, i: number): string =>
    i === 0 ? text.padEnd(widths[i] ?? 0) : text.padStart(widths[i] ?? 0)
  return rows.map((row) => `  ${row.map(cell).join('   ')}`.trimEnd()).join('\n')
}
