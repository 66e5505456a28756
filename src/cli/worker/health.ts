/**
 * Health over HTTP: `/health` says that the process lives, `/ready` that it delivers: its lease holds and its database answers. More
 * pages can be added by whoever starts it.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ConfigError } from '../../config/errors.ts'

export interface Answer {
  readonly status: number
  readonly type?: string
  readonly body: string
}

export type Pages = Readonly<Record<string, () => Answer | Promise<Answer>>>

export interface HealthServer {
  readonly port: number
  close(): Promise<void>
}

export const jsonAnswer = (ok: boolean, body: Readonly<Record<string, unknown>>): Answer => ({
  status: ok ? 200 : 503,
  type: 'application/json',
  body: `${JSON.stringify({ status: ok ? 'ok' : 'unavailable', ...body })}\n`,
})

/**
 * A connection answers once. Kept open, Node would end it after some idle seconds without looking whether a question
 * has come meanwhile: after a handler that blocks the process for so long, a probe would hear a reset.
 */
const send = (response: ServerResponse, { status, type = 'text/plain', body }: Answer): void => {
  response.writeHead(status, { 'content-type': type, 'cache-control': 'no-store', connection: 'close' })
  response.end(body)
}

export const startHealth = async (host: string, port: number, pages: Pages): Promise<HealthServer> => {
  const server = createServer((request, response) => {
    const path = (request.url ?? '/').split('?')[0] ?? '/'
    const page = pages[path]
    if (page === undefined || (request.method !== 'GET' && request.method !== 'HEAD')) {
      send(response, { status: 404, body: `there are: ${Object.keys(pages).join(', ')}\n` })
      return
    }
    Promise.resolve()
      .then(page)
      .then(
        (answer) => send(response, answer),
        () => send(response, jsonAnswer(false, {})),
      )
  })
  await new Promise<void>((resolve, reject) => {
    const refused = (error: NodeJS.ErrnoException): void =>
      reject(
        new ConfigError(
          `the health endpoints cannot listen on ${host}:${port} (${error.code}); set healthPort`,
          {
            key: 'healthPort',
            value: port,
            cause: error,
          },
        ),
      )
    server.once('error', refused)
    server.listen(port, host, () => {
      server.off('error', refused)
      resolve()
    })
  })
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
