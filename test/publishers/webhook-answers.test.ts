/** What a webhook says, and what is made of the answers. */
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Publisher } from '../../src/core/spi/index.ts'
import { type WebhookPublisherOptions, webhookPublisher } from '../../src/publishers/webhook/index.ts'
import { keyOf, signatureOf } from '../../src/publishers/webhook/signature.ts'
import { PublisherFixture } from '../../src/testing/suites/publisher-fixture.ts'
import { SECRET } from './places/webhook.ts'

const t = new PublisherFixture({ topic: 'unused' } as never)

interface Reply {
  /** 0: no answer at all. */
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body?: string
}

interface Seen {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

let server: Server
let seen: Seen[]
let reply: (path: string) => Reply
let origin: string

beforeEach(async () => {
  seen = []
  reply = () => ({ status: 204 })
  server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8')
    request.on('data', (part: string) => {
      body += part
    })
    request.on('end', () => {
      const path = request.url ?? ''
      seen.push({ path, headers: request.headers, body })
      const { status, headers = {}, body: text = '' } = reply(path)
      if (status > 0) response.writeHead(status, headers).end(text)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterEach(async () => {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})

const open = (options: Partial<WebhookPublisherOptions> = {}): Publisher =>
  webhookPublisher({
    endpoint: { url: `${origin}/a`, secret: SECRET },
    allowHttp: true,
    allowNetworks: ['127.0.0.1/32'],
    ...options,
  })

const answer = async (publisher: Publisher): Promise<{ verdict: string; error: unknown }> => {
  const [result] = await t.send(publisher, [t.delivery()], 5_000)
  await publisher.close?.()
  return { verdict: t.verdict(result), error: result?.ok === false ? result.error : null }
}

describe('the signature', () => {
  it('is that of Standard Webhooks', () => {
    const key = keyOf('whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw')
    const signature = signatureOf(
      [key],
      'msg_p5jXN8AQM9LWM0D4loKWxJek',
      1_614_265_330,
      '{"test": 2432232314}',
    )
    expect(signature).toBe('v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=')
  })

  it('is made with every secret, so that one can follow the other', async () => {
    const other = `whsec_${Buffer.alloc(24, 9).toString('base64')}`
    const publisher = open({ endpoint: { url: origin, secret: [SECRET, other] } })
    await t.sends(publisher, [t.delivery({ data: '{"é":1}' })])
    await publisher.close?.()
    const { headers, body } = seen[0] as Seen
    const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`
    const wanted = [7, 9].map((byte, i) =>
      createHmac('sha256', Buffer.alloc(i === 0 ? 32 : 24, byte))
        .update(signed)
        .digest('base64'),
    )
    expect(headers['webhook-signature']).toBe(wanted.map((each) => `v1,${each}`).join(' '))
  })

  it.each([['short'], [''], ['whsec_'], ['whsec_Zm9v'], [null], ['whsec_***'], [{}]])(
    'is not made with %o, which is not shown',
    (secret) => {
      const make = () => open({ endpoint: { url: origin, secret: secret as string } })
      expect(make).toThrow(expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION' }))
      expect(make).not.toThrow('short')
    },
  )
})

describe('answers', () => {
  it.each([
    [200, 'done'],
    [204, 'done'],
    [301, 'retry'],
    [400, 'retry'],
    [401, 'retry'],
    [404, 'retry'],
    [410, 'dead'],
    [413, 'dead'],
    [429, 'retry'],
    [500, 'retry'],
    [502, 'outage'],
    [503, 'outage'],
  ])('%i means %s', async (status, verdict) => {
    reply = () => ({ status })
    expect((await answer(open())).verdict).toBe(verdict)
  })

  it.each([
    [429, '7', 7_000],
    [503, '120', 120_000],
    [429, '99999999999', 86_400_000],
  ])('%i with Retry-After %s', async (status, value, delayMs) => {
    reply = () => ({ status, headers: { 'retry-after': value } })
    const { verdict, error } = await answer(open())
    expect(verdict).toBe('retry')
    expect(error).toMatchObject({ code: 'POSTHASTE_RETRY_AFTER', delayMs })
  })

  it('[66] none in time: it is sent again, under the id that the receiver may have seen', async () => {
    // The work was done, and the answer never comes.
    reply = () => ({ status: 0 })
    const delivery = t.delivery()
    const impatient = open({ timeoutMs: 1_000 })
    const [late] = await t.send(impatient, [delivery], 5_000)
    await impatient.close?.()
    expect(t.verdict(late)).toBe('outage')
    reply = () => ({ status: 204 })
    const patient = open()
    const [done] = await t.send(patient, [delivery], 5_000)
    await patient.close?.()
    expect(t.verdict(done)).toBe('done')
    expect(seen.map(({ headers }) => headers['webhook-id'])).toEqual([delivery.event.id, delivery.event.id])
  })

  it.each(['0', 'Wed, 21 Oct 2015 07:28:00 GMT', '-5', 'soon', ''])(
    '429 with Retry-After "%s" leaves it to the retry policy',
    async (value) => {
      reply = () => ({ status: 429, headers: { 'retry-after': value } })
      const { verdict, error } = await answer(open())
      expect(verdict).toBe('retry')
      expect(error).not.toHaveProperty('delayMs')
    },
  )

  it('503 with Retry-After of the only endpoint spends no attempt, as without', async () => {
    reply = () => ({ status: 503, headers: { 'retry-after': '60' } })
    expect((await answer(open())).error).toMatchObject({ delayMs: 60_000, counted: false })
    const one = open({ endpoint: () => ({ url: origin, secret: SECRET }) })
    expect((await answer(one)).error).toMatchObject({ delayMs: 60_000, counted: true })
  })

  it('410 is told again when nobody could hear it, and what was told fails as its own event', async () => {
    reply = () => ({ status: 410 })
    let told = 0
    const publisher = open({
      onGone: async () => {
        told += 1
        if (told === 1) throw new Error('the database of customers is away')
      },
    })
    const send = async () => t.verdict((await t.send(publisher, [t.delivery()]))[0])
    expect([await send(), await send(), await send()]).toEqual(['retry', 'dead', 'dead'])
    expect(told).toBe(2)
    await publisher.close?.()
  })

  it('410 is told once, and nothing is sent there any more', async () => {
    reply = (path) => ({ status: path === '/gone' ? 410 : 204 })
    const told: string[] = []
    const publisher = open({
      endpoint: ({ key }) => ({ url: `${origin}/${key}`, secret: SECRET }),
      onGone: ({ url }) => told.push(url),
    })
    const keys = ['gone', 'here', 'gone']
    const verdicts: string[] = []
    for (const key of keys) verdicts.push(t.verdict((await t.send(publisher, [t.delivery({ key })]))[0]))
    await publisher.close?.()
    expect(verdicts).toEqual(['dead', 'done', 'dead'])
    expect(told).toEqual([`${origin}/gone`])
    expect(seen.map(({ path }) => path)).toEqual(['/gone', '/here'])
  })

  it('410 is the answer for those too that waited for their turn', async () => {
    reply = () => ({ status: 410 })
    const publisher = open({ endpoint: () => ({ url: origin, secret: SECRET }), concurrency: 1 })
    const results = await t.send(
      publisher,
      Array.from({ length: 10 }, () => t.delivery()),
    )
    await publisher.close?.()
    expect(new Set(results.map((result) => t.verdict(result)))).toEqual(new Set(['dead']))
    expect(seen).toHaveLength(1)
  })

  it('one that is longer than anybody wants to read ends there', async () => {
    reply = () => ({ status: 500, body: 'x'.repeat(5_000_000) })
    const { error } = await answer(open({ maxResponseBytes: 1_000 }))
    expect((error as Error).message.length).toBeLessThan(1_000)
  })

  it('an endpoint that nobody wants the event at counts as sent', async () => {
    expect((await answer(open({ endpoint: () => null }))).verdict).toBe('done')
    expect(seen).toEqual([])
  })

  it('headers of the connection are not taken from an event, nor from an endpoint', async () => {
    const publisher = open()
    const headers = {
      host: 'evil',
      'transfer-encoding': 'chunked',
      'webhook-signature': 'v1,forged',
      'x-a': 'b',
    }
    await t.sends(publisher, [t.delivery({ headers })])
    await publisher.close?.()
    const theirs = open({
      endpoint: { url: `${origin}/b`, secret: SECRET, headers: { ...headers, expect: '100-continue' } },
    })
    await t.sends(theirs, [t.delivery()])
    await theirs.close?.()
    expect(seen[1]?.headers).toMatchObject({ host: origin.slice('http://'.length), 'x-a': 'b' })
    expect(seen[1]?.headers).not.toHaveProperty('transfer-encoding')
    const got = seen[0]?.headers
    expect(got?.host).toBe(origin.slice('http://'.length))
    expect(got?.['transfer-encoding']).toBeUndefined()
    expect(got?.['webhook-signature']).not.toContain('forged')
    expect(got?.['x-a']).toBe('b')
  })
})

describe('endpoints of different people', () => {
  it('one that is gone wrong is left alone, without spending attempts, while others get theirs', async () => {
    reply = (path) => ({ status: path === '/bad' ? 503 : 204 })
    const publisher = open({
      endpoint: ({ key }) => ({ url: `${origin}/${key}`, secret: SECRET }),
      breakerThreshold: 3,
      breakerOpenMs: 60_000,
    })
    const send = async (key: string) => (await t.send(publisher, [t.delivery({ key })]))[0]
    for (let n = 0; n < 3; n += 1) expect(t.verdict(await send('bad'))).toBe('retry')
    const left = await send('bad')
    expect(left).toMatchObject({ ok: false, error: { code: 'POSTHASTE_RETRY_AFTER', counted: false } })
    expect(t.verdict(await send('good'))).toBe('done')
    await publisher.close?.()
    expect(seen.filter(({ path }) => path === '/bad')).toHaveLength(3)
  })

  it('on one host do not wait for each other', async () => {
    server.removeAllListeners('request')
    server.on('request', (request, response) => {
      request.resume()
      if (request.url === '/fast') response.writeHead(204).end()
    })
    const publisher = open({
      endpoint: ({ key }) => ({ url: `${origin}/${key}`, secret: SECRET }),
      concurrency: 1,
      timeoutMs: 500,
    })
    const batch = ['slow', 'fast', 'slow', 'fast'].map((key) => t.delivery({ key }))
    const verdicts = (await t.send(publisher, batch, 5_000)).map((result) => t.verdict(result))
    await publisher.close?.()
    expect(verdicts).toEqual(['retry', 'done', 'retry', 'done'])
  })

  it('whose names nobody answers for are waited for no longer than the others, who get theirs', async () => {
    const publisher = open({
      endpoint: ({ key }) => ({ url: key === 'here' ? origin : 'http://silent.example', secret: SECRET }),
      lookup: () => new Promise(() => undefined),
      timeoutMs: 200,
      concurrency: 1,
    })
    const batch = ['silent', 'here', 'silent'].map((key) => t.delivery({ key }))
    const verdicts = (await t.send(publisher, batch, 5_000)).map((result) => t.verdict(result))
    expect(verdicts).toEqual(['retry', 'done', 'retry'])
    await publisher.close?.()
  })

  it('that cannot be found out in time say nothing about the others', async () => {
    const publisher = open({
      endpoint: ({ key }) =>
        key === 'here' ? { url: origin, secret: SECRET } : new Promise<never>(() => undefined),
    })
    const batch = ['silent', 'here'].map((key) => t.delivery({ key }))
    const verdicts = (await t.send(publisher, batch, 200)).map((result) => t.verdict(result))
    expect(verdicts).toEqual(['retry', 'done'])
    await publisher.close?.()
  })

  it('that are slow spend no attempt of what was not sent there in time', async () => {
    server.removeAllListeners('request')
    server.on('request', (request) => request.resume())
    const publisher = open({ endpoint: () => ({ url: origin, secret: SECRET }), concurrency: 2 })
    const results = await t.send(
      publisher,
      Array.from({ length: 6 }, () => t.delivery()),
      300,
    )
    await publisher.close?.()
    const counted = results.map(
      (result) => (result as { error: { counted?: boolean } }).error.counted ?? true,
    )
    expect(counted).toEqual([true, true, false, false, false, false])
  })

  it('are left alone at first for as long as was said, however many requests were under way', async () => {
    reply = () => ({ status: 503 })
    const publisher = open({
      endpoint: () => ({ url: origin, secret: SECRET }),
      concurrency: 8,
      breakerThreshold: 2,
      breakerOpenMs: 60_000,
      breakerMaxOpenMs: 6_000_000,
    })
    await t.send(
      publisher,
      Array.from({ length: 8 }, () => t.delivery()),
    )
    const [left] = await t.send(publisher, [t.delivery()])
    expect((left as { error: { delayMs: number } }).error.delayMs).toBeLessThanOrEqual(60_000)
    await publisher.close?.()
  })

  it('get no more requests at once than was said', async () => {
    let [running, most] = [0, 0]
    server.removeAllListeners('request')
    server.on('request', (_request, response) => {
      running += 1
      most = Math.max(most, running)
      setImmediate(() => {
        running -= 1
        response.writeHead(204).end()
      })
    })
    const publisher = open({ concurrency: 3 })
    await t.sends(
      publisher,
      Array.from({ length: 40 }, () => t.delivery()),
    )
    await publisher.close?.()
    expect(most).toBeLessThanOrEqual(3)
  })
})
