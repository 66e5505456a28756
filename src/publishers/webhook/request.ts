/** One POST to an address that was looked at before: no redirects, no proxy, bounded in time and in what is read. */
import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { LookupFunction } from 'node:net'
import type { Address } from './addresses.ts'

export interface Answer {
  readonly status: number
  readonly retryAfter: string | undefined
  /** The beginning of the body. */
  readonly text: string
}

export interface PostRequest {
  readonly url: URL
  readonly address: Address
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  readonly signal: AbortSignal
  readonly maxResponseBytes: number
}

const IDLE_MS = 10_000

/** Agents of our own: the global one can be told by the environment to use a proxy. */
export class Poster {
  readonly #http: HttpAgent
  readonly #https: HttpsAgent

  /** How many are kept for each host. There may be more at work: endpoints of different people can share a host. */
  constructor(idlePerHost: number) {
    const options = { keepAlive: true, maxFreeSockets: idlePerHost, timeout: IDLE_MS }
    this.#http = new HttpAgent(options)
    this.#https = new HttpsAgent(options)
  }

  close(): void {
    this.#http.destroy()
    this.#https.destroy()
  }

  post({ url, address, headers, body, signal, maxResponseBytes }: PostRequest): Promise<Answer> {
    const isSecure = url.protocol === 'https:'
    // The name was resolved already; asking again could give another answer.
    const pinned: LookupFunction = (_hostname, { all }, found) =>
      all === true ? found(null, [address]) : found(null, address.address, address.family)
    return new Promise((resolve, reject) => {
      const request = (isSecure ? httpsRequest : httpRequest)(url, {
        method: 'POST',
        agent: isSecure ? this.#https : this.#http,
        headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) },
        lookup: pinned,
        signal,
      })
      let isAnswered = false
      request.on('error', reject)
      // Without it Node would end the request without a word. Nobody here speaks another protocol.
      request.on('upgrade', (response, socket) => {
        socket.destroy()
        resolve({ status: response.statusCode ?? 0, retryAfter: undefined, text: '' })
      })
      // However it ended, somebody waits for it. With an answer it can be closed before that was read.
      request.on('close', () => isAnswered || reject(new Error('the connection ended before an answer')))
      request.on('response', (response) => {
        isAnswered = true
        const parts: Buffer[] = []
        let size = 0
        const answered = (): void => {
          const text = Buffer.concat(parts).toString('utf8')
          resolve({ status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'], text })
        }
        response.on('data', (part: Buffer) => {
          parts.push(part.subarray(0, maxResponseBytes - size))
          size += part.length
          if (size < maxResponseBytes) return
          // Whoever sends more than anybody wants to know does not get to keep the connection.
          answered()
          request.destroy()
        })
        response.on('end', answered)
        response.on('error', reject)
        response.on('close', () => reject(new Error('the connection ended within the answer')))
      })
      request.end(body)
    })
  }
}
