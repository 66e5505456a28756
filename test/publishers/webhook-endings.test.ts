/** Webhooks that end without an answer, that wait for somebody, or that cannot even be sent. */
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Publisher } from '../../src/core/spi/index.ts'
import {
  type WebhookEndpoint,
  type WebhookPublisherOptions,
  webhookPublisher,
} from '../../src/publishers/webhook/index.ts'
import { type DeliveryOverrides, PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'
import { SECRET } from './places/webhook.ts'

const t = new PublisherFixture({ topic: 'unused' } as never)

const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'

let server: Server
let url: string
let answer: (response: ServerResponse) => void
let requests: number
const sockets = new Set<Socket>()

beforeEach(async () => {
  requests = 0
  answer = (response) => response.writeHead(204).end()
  server = createServer((request, response) => {
    requests += 1
    request.on('error', () => undefined).resume()
    answer(response)
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
})

afterEach(async () => {
  vi.restoreAllMocks()
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})

type Endpoint = WebhookPublisherOptions['endpoint']

const fixed = (headers = {}): Endpoint => ({ url, secret: SECRET, headers })
const byEvent = (headers = {}): Endpoint => {
  return () => ({ url, secret: SECRET, headers })
}

const open = (endpoint: Endpoint, options: Partial<WebhookPublisherOptions> = {}): Publisher =>
  webhookPublisher({ endpoint, allowHttp: true, allowNetworks: ['127.0.0.1/32'], ...options })

const verdicts = async (publisher: Publisher, events: readonly DeliveryOverrides[], timeoutMs = 5_000) => {
  const deliveries = events.map((event) => t.delivery(event))
  const results = await t.send(publisher, deliveries, timeoutMs)
  await publisher.close?.()
  return results.map((result) => t.verdict(result))
}

describe('an endpoint that wants to speak another protocol', () => {
  it.each([
    ['the only one', () => fixed()],
    ['one of many', () => byEvent()],
  ])('has answered, and loses its connection: %s', async (_, endpoint) => {
    answer = ({ socket }) => socket?.write(SWITCHING)
    const publisher = open(endpoint(), { concurrency: 1 })
    const large = { data: JSON.stringify('x'.repeat(3_000_000)) }
    const [first] = await t.send(publisher, [t.delivery()])
    expect((first as { error: Error }).error.message).toBe('the endpoint answered 101')
    expect(await verdicts(publisher, [{}, large])).toEqual(['retry', 'retry'])
    await vi.waitFor(() => expect(sockets.size).toBe(0), { timeout: 60_000 })
  })
})

describe('onGone', () => {
  it('that never ends is waited for no longer than the batch, and told again', async () => {
    answer = (response) => response.writeHead(410).end()
    let told = 0
    const stop = new AbortController()
    const publisher = open(fixed(), {
      onGone: () => {
        told += 1
        if (told > 1) return undefined
        stop.abort(new Error('no time left'))
        return new Promise(() => undefined)
      },
    })
    const [result] = await publisher.send([t.delivery()], { signal: stop.signal })
    expect(t.verdict(result)).toBe('retry')
    expect(await verdicts(publisher, [{}])).toEqual(['dead'])
    expect(told).toBe(2)
  })
})

describe('a request that is broken off from here', () => {
  const DEADLINE = Object.assign(new Error('the time is over'), { code: 'POSTHASTE_DEADLINE' })

  /** The second of two requests, each answered before the next begins, is broken off; when says the clock. */
  const breakOff = async (endpoint: Endpoint, reason: Error, requestsAt: readonly [number, number]) => {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
    const stop = new AbortController()
    answer = (response) => {
      if (requests === 1) {
        clock.mockReturnValue(requestsAt[0])
        response.writeHead(204).end()
      } else if (requests === 2) {
        clock.mockReturnValue(requestsAt[1])
        stop.abort(reason)
      } else response.writeHead(204).end()
    }
    const publisher = open(endpoint, { concurrency: 1, breakerThreshold: 1 })
    const results = await publisher.send([t.delivery(), t.delivery()], { signal: stop.signal })
    const next = await verdicts(publisher, [{}])
    return { broken: results[1], next }
  }

  const UNCOUNTED = { ok: false, error: { code: 'POSTHASTE_RETRY_AFTER', counted: false, delayMs: 0 } }
  const BOTH: [string, () => Endpoint][] = [
    ['the only endpoint', () => fixed()],
    ['endpoints by event', () => byEvent()],
  ]

  it.each(BOTH)('by a shutdown says nothing about event and endpoint: %s', async (_, endpoint) => {
    const stopping = new Error('the outbox is stopping')
    const { broken, next } = await breakOff(endpoint(), stopping, [100, 1_000])
    expect(broken).toMatchObject(UNCOUNTED)
    expect(next).toEqual(['done'])
  })

  it.each(BOTH)('because others had most of the time says nothing either: %s', async (_, endpoint) => {
    const { broken, next } = await breakOff(endpoint(), DEADLINE, [900, 1_000])
    expect(broken).toMatchObject(UNCOUNTED)
    expect(next).toEqual(['done'])
  })

  it('is charged also where looking the endpoint up had most of the time', async () => {
    const clock = vi.spyOn(performance, 'now').mockReturnValue(0)
    const stop = new AbortController()
    answer = () => {
      clock.mockReturnValue(1_000)
      stop.abort(DEADLINE)
    }
    const slow: Endpoint = async () => {
      clock.mockReturnValue(900)
      return { url, secret: SECRET }
    }
    const publisher = open(slow, { concurrency: 1 })
    const [broken] = await publisher.send([t.delivery()], { signal: stop.signal })
    expect(broken).toMatchObject({ ok: false, error: { name: 'WebhookError' } })
  })

  it.each<[string, Error, readonly [number, number]]>([
    ['most of the time of the batch', DEADLINE, [100, 1_000]],
    ['all the time that requests have', new Error('the outbox is stopping'), [20_000, 35_000]],
  ])('is charged to an endpoint that had %s and did not answer', async (_, reason, requestsAt) => {
    const { broken, next } = await breakOff(byEvent(), reason, requestsAt)
    expect(broken).toMatchObject({ ok: false, error: { name: 'WebhookError' } })
    // Its breaker is open.
    expect(next).toEqual(['retry'])
    expect(requests).toBe(2)
  })
})

describe('a header that no request can have', () => {
  it.each([
    ['authorization', 'Bearer hush\n'],
    ['bad name', 'hush'],
    ['', 'hush'],
    ['x-sum', 'hush ✓'],
    ['x-none', undefined],
  ])('of the only endpoint is said at once, without its value: %o', (name, value) => {
    const make = () => open(fixed({ [name]: value }))
    expect(make).toThrow(
      expect.objectContaining({
        code: 'POSTHASTE_INVALID_OPTION',
        message: expect.stringContaining(JSON.stringify(name)),
      }),
    )
    expect(make).not.toThrow('hush')
  })

  it('of one endpoint among many fails what is sent there, and may be mended', async () => {
    const mended = [{ authorization: 'Bearer hush\n' }, { authorization: 'Bearer hush' }]
    const publisher = open(() => ({ url, secret: SECRET, headers: mended.shift() ?? {} }))
    expect(await verdicts(publisher, [{}, {}])).toEqual(['retry', 'done'])
  })

  it.each<[string, Partial<WebhookEndpoint>]>([
    ['a header', { headers: { authorization: 'Bearer hush\n' } }],
    ['a secret', { secret: 'hush' }],
  ])(
    'or %s that no request can have, of one endpoint among many, does not count as its silence',
    async (_, bad) => {
      const publisher = open(({ key }) => ({ url, secret: SECRET, ...(key === 'bad' ? bad : {}) }), {
        breakerThreshold: 1,
      })
      const [refused] = await t.send(publisher, [t.delivery({ key: 'bad' })])
      expect(refused).toMatchObject({ error: { code: 'POSTHASTE_INVALID_OPTION' } })
      expect(t.verdict(refused)).toBe('retry')
      expect(await verdicts(publisher, [{}, { key: 'bad' }, {}])).toEqual(['done', 'retry', 'done'])
    },
  )

  it.each<[string, DeliveryOverrides]>([
    ['a name', { headers: { 'bad name': 'x' } }],
    ['an empty name', { headers: { '': 'x' } }],
    ['half a character', { headers: { a: '\ud800' } }],
    ['no text', { headers: { a: { b: 1 } as never } }],
    ['a content type', { contentType: 'text/plain\r\nx: y' }],
  ])('of an event is the fault of that event alone: %s', async (_, bad) => {
    for (const endpoint of [fixed(), byEvent()])
      expect(await verdicts(open(endpoint), [{}, bad, {}])).toEqual(['done', 'dead', 'done'])
  })

  it('of the connection is not sent, so it need not be good', async () => {
    expect(await verdicts(open(fixed()), [{ headers: { host: 'a\nb', Expect: '\ud800' } }])).toEqual(['done'])
    expect(requests).toBe(1)
  })
})

describe('a large batch', () => {
  it.each([
    ['the only endpoint', () => fixed()],
    ['endpoints by event', () => byEvent()],
  ])('makes Node warn of nothing: %s', async (_, endpoint) => {
    const warned = vi.spyOn(process, 'emitWarning')
    const batch = Array.from({ length: 40 }, () => ({}))
    expect(new Set(await verdicts(open(endpoint()), batch))).toEqual(new Set(['done']))
    expect(warned.mock.calls).toEqual([])
  })
})
