/**
 * Reads a real broker, a process of its own: always from the beginning, again after every break, until it is asked to end
 * and has read everything. What it has seen before is not written again.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { ANSWER_WITHIN_MS, type Arrival, loadKit, type Reading } from '../brokers/kit.ts'
import { type ArrivalLine, FILES, Log } from '../logs.ts'
import type { FromReader, ReaderTask } from './messages.ts'
import { readSend, SEND_HEADER } from './sends.ts'

const AGAIN_MS = 100
/** The sender of a message without a mark; that should not be there. */
const NOBODY = { boot: '?', run: 0, attempt: 0, answer: 'ok' } as const

const { folder, kind, url } = JSON.parse(process.argv[2] ?? '{}') as ReaderTask
const log = new Log(folder, FILES.arrivals)
const kit = await loadKit(kind)
const seen = new Set<string>()
let isLast = false

const tell = (message: FromReader): void => void process.send?.(message)

const lineOf = ({ position, at, key, headers }: Arrival): ArrivalLine => {
  const mark = headers[SEND_HEADER] ?? ''
  const { boot, run, attempt, answer } = readSend(mark) ?? NOBODY
  const slot = boot.slice(0, Math.max(0, boot.lastIndexOf('-')))
  const event = headers['event-id'] ?? '?'
  const sends = [[event, run, attempt, answer]] as const
  // A broker that lost something may use its place for something else.
  return { at, slot, boot, destination: kind, sends, position: `${position} ${mark}`, key }
}

const write = (arrivals: readonly Arrival[]): void => {
  const fresh = arrivals.map(lineOf).filter(({ position }) => !seen.has(position))
  for (const { position } of fresh) seen.add(position)
  log.write(fresh, false)
}

/** A broker that was suspended answers nobody. */
const answered = async <T>(work: Promise<T>): Promise<T> => {
  const timer = new AbortController()
  const late = pause(2 * ANSWER_WITHIN_MS, null, { signal: timer.signal }).then(() => {
    throw new Error('the broker did not answer')
  })
  work.catch(() => undefined)
  late.catch(() => undefined)
  try {
    return await Promise.race([work, late])
  } finally {
    timer.abort()
  }
}

const readAll = async (reading: Reading): Promise<void> => {
  for (;;) {
    const wasLast = isLast
    const arrivals = await answered(reading.next())
    write(arrivals)
    if (wasLast && arrivals.length === 0) return
  }
}

const readOnce = async (): Promise<boolean> => {
  const opening = kit.read(url)
  let reading: Reading | null = null
  try {
    reading = await answered(opening)
    tell({ kind: 'reading' })
    await readAll(reading)
    return true
  } catch (error) {
    console.log(new Date().toISOString(), 'reader', String(error))
    return false
  } finally {
    const close = (open: Reading): Promise<unknown> => open.close()
    // A connection that comes too late is not wanted any more; one that is broken cannot be closed.
    if (reading === null) void opening.then(close).catch(() => undefined)
    else await answered(reading.close()).catch(() => undefined)
  }
}

process.on('message', () => {
  isLast = true
})
process.on('disconnect', () => process.exit(1))
while (!(await readOnce())) await pause(AGAIN_MS)
log.close()
process.send?.({ kind: 'read-all' } satisfies FromReader, () => process.exit(0))
