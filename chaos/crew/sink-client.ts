/** One connection to the sink, made anew when it breaks. A request whose answer does not come has failed. */
import { connect, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import type { SinkAnswer } from '../logs.ts'
import type { SinkRequest, SinkResponse } from './messages.ts'

interface Pending {
  readonly resolve: (answers: readonly SinkAnswer[]) => void
  readonly reject: (error: Error) => void
}

export class SinkClient {
  readonly #port: number
  readonly #pending = new Map<number, Pending>()
  #socket: Socket | null = null
  #count = 0

  constructor(port: number) {
    this.#port = port
  }

  send(request: Omit<SinkRequest, 'request'>): Promise<readonly SinkAnswer[]> {
    const number = ++this.#count
    return new Promise((resolve, reject) => {
      this.#pending.set(number, { resolve, reject })
      this.#connection().write(`${JSON.stringify({ request: number, ...request } satisfies SinkRequest)}\n`)
    })
  }

  close(): void {
    this.#socket?.destroy()
  }

  #connection(): Socket {
    if (this.#socket !== null) return this.#socket
    const socket = connect({ host: '127.0.0.1', port: this.#port, noDelay: true })
    this.#socket = socket
    let reason: Error = Object.assign(new Error('the sink closed the connection'), { code: 'ECONNRESET' })
    socket.on('error', (error) => {
      reason = error
    })
    socket.on('close', () => this.#lost(socket, reason))
    createInterface({ input: socket, crlfDelay: Infinity })
      .on('line', (text) => this.#answered(JSON.parse(text) as SinkResponse))
      .on('error', () => undefined)
    return socket
  }

  #answered({ request, answers }: SinkResponse): void {
    this.#pending.get(request)?.resolve(answers)
    this.#pending.delete(request)
  }

  #lost(socket: Socket, reason: Error): void {
    if (this.#socket === socket) this.#socket = null
    for (const { reject } of this.#pending.values()) reject(reason)
    this.#pending.clear()
  }
}
