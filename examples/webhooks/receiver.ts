/** What a customer runs: it knows its secret and the standard, and nothing of Posthaste. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Older ones may be repetitions by somebody who listened in. */
const TOLERANCE_SECONDS = 300

/** The bytes of the body as they came: what was parsed and written again would not fit the signature. */
const verify = (secret: string, headers: IncomingHttpHeaders, body: Buffer): boolean => {
  const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map((name) =>
    String(headers[`webhook-${name}`] ?? ''),
  ) as [string, string, string]
  if (!(Math.abs(Date.now() / 1_000 - Number(timestamp)) <= TOLERANCE_SECONDS)) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest()
  // While a secret is being replaced there are two: one that fits is enough.
  return signatures.split(' ').some((each) => {
    const [version, value = ''] = each.split(',')
    const given = Buffer.from(value, 'base64')
    return version === 'v1' && given.length === wanted.length && timingSafeEqual(given, wanted)
  })
}

/** Customers of this name have moved away. */
const GONE = 'gone'

export const startReceiver = async () => {
  const secrets = new Map<string, string>()
  const asked = new Map<string, number>()
  const seen = new Set<string>()
  /** Gives the status to answer with. */
  const receive = async (request: IncomingMessage): Promise<number> => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const body = Buffer.concat(parts)
    const customer = (request.url ?? '').slice(1)
    asked.set(customer, (asked.get(customer) ?? 0) + 1)
    if (customer === GONE) return 410
    if (!verify(secrets.get(customer) ?? '', request.headers, body)) return 401
    const id = String(request.headers['webhook-id'])
    if (!seen.has(id)) {
      seen.add(id)
      const { item } = JSON.parse(body.toString()) as { item: string }
      const count = String(request.headers['webhook-signature']).split(' ').length
      console.log(`${customer} received a ${item}, signed by ${count} secret${count === 1 ? '' : 's'}`)
    }
    return 204
  }
  const server = createServer((request, response) => {
    receive(request).then(
      (status) => response.writeHead(status).end(),
      () => response.writeHead(500).end(),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    urlOf: (customer: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${customer}`,
    /** The customer puts it into the receiver's configuration. */
    useSecret: (customer: string, secret: string) => void secrets.set(customer, secret),
    asked: (customer: string) => asked.get(customer) ?? 0,
    close: () => server.close(),
  }
}
