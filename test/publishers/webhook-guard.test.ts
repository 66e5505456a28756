/** Where webhooks do not go, whoever gave the address. */
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createServer, type Server } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { Lookup } from '../../src/publishers/webhook/addresses.ts'
import { type WebhookPublisherOptions, webhookPublisher } from '../../src/publishers/webhook/index.ts'
import { PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'
import { HOSTILE_NAMES, hostileUrls } from './hostile-urls.ts'
import { SECRET } from './places/webhook.ts'

const t = new PublisherFixture({ topic: 'unused' } as never)
const servers: Server[] = []

/** Whoever connects to it has gone where nobody should. */
const startCanary = async (host: string, port = 0): Promise<{ port: number; connections: () => number }> => {
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.destroy()
  })
  servers.push(server)
  server.listen(port, host)
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, connections: () => connections }
}

afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.close()
    await once(server, 'close')
  }
})

const addressesOf = (all: readonly string[]): Awaited<ReturnType<Lookup>> =>
  all.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))

const hostileLookup: Lookup = async (hostname) => addressesOf(HOSTILE_NAMES[hostname] ?? [])

const sendTo = async (url: string, options: Partial<WebhookPublisherOptions> = {}) => {
  const publisher = webhookPublisher({
    endpoint: () => ({ url, secret: SECRET }),
    allowHttp: true,
    lookup: hostileLookup,
    ...options,
  })
  const [result] = await t.send(publisher, [t.delivery()], 5_000)
  await publisher.close?.()
  return result
}

describe('a fixed endpoint that cannot work', () => {
  const made = (url: string) => () => webhookPublisher({ endpoint: { url, secret: SECRET } })

  it.each([
    ['http://shop.example/hook', /allowHttp/],
    ['ftp://shop.example/hook', /ftp:\/\/ is not https/],
    ['https://ada:hunter2@shop.example/', /a user or a password/],
    ['shop', /no URL/],
  ])('is a wrong option, said when it is made: %s', (url, why) => {
    expect(made(url)).toThrow(
      expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION', message: expect.stringMatching(why) }),
    )
    expect(made(url)).not.toThrow(/hunter2/)
  })
})

describe('a webhook to an address that is not public', () => {
  it('says which option would let it pass', async () => {
    const result = await sendTo('http://127.0.0.1:9/')
    expect(String(result?.ok === false && result.error)).toMatch(
      /127\.0\.0\.1 is not a public .*allowNetworks/,
    )
  })

  it('is never sent', async () => {
    const canary = await startCanary('127.0.0.1')
    const urls = hostileUrls(canary.port)
    expect(urls.length).toBeGreaterThanOrEqual(100)
    const passed: string[] = []
    for (const url of urls) {
      const result = await sendTo(url)
      if (t.verdict(result) !== 'dead') passed.push(`${url} ${JSON.stringify(result)}`)
    }
    expect(passed).toEqual([])
    expect(canary.connections()).toBe(0)
  })

  it.each([
    ['127.0.0.1', 6],
    ['::ffff:127.0.0.1', 4],
    ['::1', 4],
    ['localhost', 4],
    ['127.0.0.1', undefined],
  ])('is not sent when the resolver calls %s an address of family %s', async (address, family) => {
    const canary = await startCanary('127.0.0.1')
    const lookup = (async () => [{ address, family }]) as unknown as Lookup
    expect(t.verdict(await sendTo(`http://lying.example:${canary.port}/`, { lookup }))).toBe('dead')
    expect(canary.connections()).toBe(0)
  })

  it('goes to a public address whatever family the resolver says that it has', async () => {
    const good = createHttpServer((_request, response) => response.writeHead(204).end())
    servers.push(good)
    good.listen(0, '127.0.0.2')
    await once(good, 'listening')
    const { port } = good.address() as AddressInfo
    const lookup = (async () => [{ address: '127.0.0.2', family: 6 }]) as unknown as Lookup
    const result = await sendTo(`http://mistaken.example:${port}/`, { lookup, allowNetworks: ['127.0.0.2'] })
    expect(result?.ok).toBe(true)
  })

  it('goes to the address that was looked at, not to what the name means a moment later', async () => {
    const good = createHttpServer((_request, response) => response.writeHead(204).end())
    servers.push(good)
    good.listen(0, '127.0.0.2')
    await once(good, 'listening')
    const { port } = good.address() as AddressInfo
    const canary = await startCanary('127.0.0.1', port)
    const answers = [['127.0.0.2'], ['127.0.0.1'], ['127.0.0.1']]
    let asked = 0
    const lookup: Lookup = async () => addressesOf(answers[asked++] ?? [])
    const allowNetworks = ['127.0.0.2']
    expect((await sendTo(`http://rebinding.example:${port}/`, { lookup, allowNetworks }))?.ok).toBe(true)
    expect(asked).toBe(1)
    expect(canary.connections()).toBe(0)
  })

  it('does not follow a redirect there', async () => {
    const canary = await startCanary('127.0.0.1')
    const redirecting = createHttpServer((_request, response) =>
      response.writeHead(307, { location: `http://127.0.0.1:${canary.port}/` }).end(),
    )
    servers.push(redirecting)
    redirecting.listen(0, '127.0.0.2')
    await once(redirecting, 'listening')
    const { port } = redirecting.address() as AddressInfo
    const result = await sendTo(`http://127.0.0.2:${port}/`, { allowNetworks: ['127.0.0.2'] })
    expect(t.verdict(result)).toBe('retry')
    expect(canary.connections()).toBe(0)
  })

  it('is not sent without encryption unless that is allowed', async () => {
    const result = await sendTo('http://93.184.215.14/', { allowHttp: false })
    expect(t.verdict(result)).toBe('dead')
  })
})
