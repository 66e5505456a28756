/**
 * The recording sink, a process of its own. Every request is on disk, in the order of arrival, before it is
 * answered; so what the sink accepted is known even if the answer is lost, or the sink is killed.
 */
import { createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { FILES, Log, type SinkAnswer, type SinkLine } from '../logs.ts'
import type { SinkRequest, SinkResponse, SinkTask } from './messages.ts'

const { folder, port } = JSON.parse(process.argv[2] ?? '{}') as SinkTask
const log = new Log(folder, FILES.sink)

interface Waiting {
  readonly line: SinkLine
  readonly answer: () => void
}

/** The event itself says what becomes of it, so a sink that is started anew decides the same. */
const decide = (attempt: number, failures: number, fate: string): SinkAnswer => {
  if (fate === 'refused') return 'dead'
  return attempt <= failures ? 'retry' : 'ok'
}

let waiting: Waiting[] = []

/** Requests that came in one turn of the event loop share one write. */
const flush = (): void => {
  const batch = waiting
  waiting = []
  log.write(
    batch.map(({ line }) => line),
    true,
  )
  for (const { answer } of batch) answer()
}

const take = (socket: Socket, text: string): void => {
  const { request, slot, boot, destination, sends } = JSON.parse(text) as SinkRequest
  const decided = sends.map(
    ({ event, run, attempt, failures, fate }) =>
      [event, run, attempt, decide(attempt, failures, fate)] as const,
  )
  const answers = decided.map(([, , , answer]) => answer)
  if (waiting.length === 0) setImmediate(flush)
  waiting.push({
    line: { at: Date.now(), slot, boot, destination, sends: decided },
    answer: () => void socket.write(`${JSON.stringify({ request, answers } satisfies SinkResponse)}\n`),
  })
}

const server = createServer((socket) => {
  socket.setNoDelay(true)
  // A sender that is killed resets its connection.
  socket.on('error', () => undefined)
  createInterface({ input: socket, crlfDelay: Infinity })
    .on('line', (text) => take(socket, text))
    .on('error', () => undefined)
})
server.listen(port, '127.0.0.1', () => {
  const address = server.address()
  process.send?.({ port: typeof address === 'object' ? address?.port : null })
})
process.on('disconnect', () => process.exit(0))
