import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { webhookPublisher } from '../../../src/publishers/webhook/index.ts'
import type { PublisherHarness, ReceivedMessage } from '../../../src/testing/suites/index.ts'
import { lowerNames, untilThere } from '../received.ts'

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const LARGEST_BODY = 1_500_000

const bodyOf = async (request: IncomingMessage): Promise<Buffer> => {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

const messageOf = (request: IncomingMessage, body: Buffer): ReceivedMessage => {
  const headers = lowerNames(request.headers as Record<string, string>)
  return { body, contentType: headers['content-type'] ?? null, key: null, headers }
}

export const createWebhookPlace = async (): Promise<PublisherHarness> => {
  const received: ReceivedMessage[] = []
  const held = new Set<ServerResponse>()
  let hangs = false
  let server: Server
  const listen = async (port: number): Promise<void> => {
    server = createServer((request, response) => {
      void bodyOf(request).then(
        (body) => {
          if (hangs) {
            held.add(response)
            return
          }
          const isTooLarge = body.byteLength > LARGEST_BODY
          if (!isTooLarge) received.push(messageOf(request, body))
          response.writeHead(isTooLarge ? 413 : 204).end()
        },
        () => undefined,
      )
    })
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  }
  const end = async (): Promise<void> => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  await listen(0)
  const { port } = server!.address() as AddressInfo
  const endpoint = { url: `http://127.0.0.1:${port}/hooks`, secret: SECRET }
  const open: PublisherHarness['open'] = ({ format = 'plain' } = {}) =>
    webhookPublisher({ endpoint, format, allowHttp: true, allowNetworks: ['127.0.0.1'] })
  return {
    topic: 'unused',
    keepsKey: false,
    tooLarge: LARGEST_BODY,
    open,
    openHanging: async () => ({
      publisher: open(),
      hang: () => {
        hangs = true
      },
      goOn: () => {
        hangs = false
        for (const response of held) response.destroy()
      },
    }),
    received: (count) => untilThere(count, async () => received),
    kill: end,
    start: () => listen(port),
    dispose: end,
  }
}
