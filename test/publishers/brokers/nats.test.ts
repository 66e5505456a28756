import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { describe, expect, it, onTestFinished } from 'vitest'
import { debianProgram } from '../../../scripts/services/index.ts'
import type { Publisher } from '../../../src/core/spi/index.ts'
import { natsPublisher } from '../../../src/publishers/nats.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { startProxy } from '../../databases/proxy.ts'
import { newTopic, startBroker } from '../broker.ts'
import { createNatsPlace } from '../places/nats.ts'
import { testPublisher } from '../run.ts'

testPublisher('nats')

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

/** A server with settings of its own, for one test; gives its address. `DATA` stands for a folder. */
const startServer = async (settings: string): Promise<string> => {
  const folder = mkdtempSync(join(tmpdir(), 'posthaste-nats-'))
  const config = join(folder, 'nats.conf')
  writeFileSync(config, settings.replaceAll('DATA', join(folder, 'data')))
  const { program, args } = await debianProgram('nats-server', 'usr/sbin/nats-server', [
    ...['--addr', '127.0.0.1', '--port', '-1'],
    ...['--config', config],
  ])
  const server = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = once(server, 'exit')
  onTestFinished(async () => {
    server.kill('SIGKILL')
    await ended
    rmSync(folder, { recursive: true })
  })
  let address: string | undefined
  for await (const line of createInterface(server.stderr)) {
    address ??= /client connections on (\S+)/.exec(line)?.[1]
    if (line.includes('Server is ready')) break
  }
  // What it says from now on must not fill the pipe.
  server.stderr.resume()
  if (address === undefined) throw new Error('the server ended before it was ready')
  return address
}

describe('nats in particular', () => {
  /** A place, and a stream of its own with these settings. */
  const begin = async (settings: object) => {
    const place = await createNatsPlace()
    const t = new PublisherFixture(place)
    const { url } = await startBroker('nats', () => ({}) as Publisher)
    const { host, username, password } = new URL(url)
    const connection = await connect({ servers: host, user: username, pass: password })
    onTestFinished(async () => {
      await t.close()
      await connection.close()
      await place.dispose()
    })
    const name = newTopic()
    const { streams } = await jetstreamManager(connection)
    await streams.add({ name, subjects: [name, `${name}.>`], ...settings } as never)
    const count = async (): Promise<number> => (await streams.info(name)).state.messages
    return { t, url, name, count, connection }
  }

  it('[62] waits for a stream that is full, and spends no attempt', async () => {
    const { t, name: full } = await begin({ max_msgs: 1, discard: 'new' })
    const publisher = t.open()
    await t.sends(publisher, [t.delivery({ topic: full })])
    const results = await t.send(publisher, [t.delivery({ topic: full }), t.delivery()])
    expect(results.map((result) => t.verdict(result))).toEqual(['outage', 'done'])
  })

  it('waits when the limits of its account are reached, and spends no attempt', async () => {
    const host = await startServer(`
      jetstream { store_dir: "DATA" }
      accounts { A: { jetstream: { max_file: 20KB, max_mem: 20KB }, users: [{ user: a, password: a }] } }
    `)
    const connection = await connect({ servers: host, user: 'a', pass: 'a' })
    onTestFinished(() => connection.close())
    const { streams } = await jetstreamManager(connection)
    const name = newTopic()
    await streams.add({ name, subjects: [name] })
    const t = new PublisherFixture({ topic: name } as never)
    onTestFinished(() => t.close())
    const publisher = t.closing(natsPublisher({ servers: `nats://a:a@${host}` }))
    const send = async (data: string) => {
      const [result] = await t.send(publisher, [t.delivery({ data: JSON.stringify(data) })])
      return t.verdict(result)
    }
    expect(await send('x'.repeat(15_000))).toBe('done')
    expect(await send('x'.repeat(15_000))).toBe('outage')
    await streams.purge(name)
    expect(await send('x'.repeat(15_000))).toBe('done')
  })

  it('a server without JetStream spends no attempt, and is left for another', async () => {
    const { t, url, name } = await begin({})
    const { username, password } = new URL(url)
    const host = await startServer(`authorization { user: "${username}", password: "${password}" }`)
    const proxy = await startProxy(`nats://${username}:${password}@${host}`)
    onTestFinished(() => proxy[Symbol.asyncDispose]())
    const publisher = t.closing(natsPublisher({ servers: proxy.url }))
    const send = async () => await t.send(publisher, [t.delivery({ topic: name }), t.delivery()])
    const results = await send()
    expect(results.map((result) => t.verdict(result))).toEqual(['outage', 'outage'])
    const { error } = results[0] as { readonly error: unknown }
    expect(String(error)).toContain('has no JetStream')
    expect(String(error)).toContain(`or no stream has the subject "${name}"`)
    proxy.redirect(url)
    expect((await send()).map((result) => t.verdict(result))).toEqual(['done', 'done'])
  })

  it('a connection that fell silent is left for a new one when an acknowledgement does not come', async () => {
    const { t, url } = await begin({})
    const proxy = await startProxy(url)
    onTestFinished(() => proxy[Symbol.asyncDispose]())
    const publisher = t.closing(natsPublisher({ servers: proxy.url, ackTimeoutMs: 300 }))
    const send = async (data: string) =>
      t.verdict((await t.send(publisher, [t.delivery({ data: JSON.stringify(data) })], 20_000))[0])
    expect(await send('first')).toBe('done')
    const silenced = proxy.silenceAt('unanswered', 'before')
    expect(await send('unanswered')).toBe('outage')
    await silenced
    expect(await send('last')).toBe('done')
  })

  it('a server without JetStream that leads to one that has it says something about the subject', async () => {
    const port = await freePort()
    const hub = await startServer(
      `jetstream { store_dir: "DATA" }\nleafnodes { listen: "127.0.0.1:${port}" }`,
    )
    const leaf = await startServer(`leafnodes { remotes: [{ url: "nats-leaf://127.0.0.1:${port}" }] }`)
    const connection = await connect({ servers: hub })
    onTestFinished(() => connection.close())
    const name = newTopic()
    await (await jetstreamManager(connection)).streams.add({ name, subjects: [name] })
    const t = new PublisherFixture({ topic: name } as never)
    onTestFinished(() => t.close())
    const publisher = t.closing(natsPublisher({ servers: `nats://${leaf}` }))
    const send = async (topic: string) => t.verdict((await t.send(publisher, [t.delivery({ topic })]))[0])
    // Until the two know each other.
    while ((await send(name)) !== 'done') {}
    expect([await send(`${name}.nowhere`), await send(name)]).toEqual(['retry', 'done'])
  })

  it('[63] stores once what is sent again because its answer was lost', async () => {
    const place = await createNatsPlace()
    const t = new PublisherFixture(place)
    onTestFinished(async () => {
      await t.close()
      await place.dispose()
    })
    const [publisher, delivery] = [t.open(), t.delivery({ data: '"once"' })]
    await t.sends(publisher, [delivery])
    await t.sends(publisher, [delivery])
    await t.sends(publisher, [t.delivery({ data: '"last"' })])
    const bodies = (await place.received(2)).map(({ body }) => Buffer.from(body).toString())
    expect(bodies).toEqual(['"once"', '"last"'])
  })

  it('a subject that is closed to us is about its events alone, and is heard of at once', async () => {
    const { t, url } = await begin({})
    const servers = url.replace(/\/\/.*@/, '//guest:guest@')
    const publisher = t.closing(natsPublisher({ servers, ackTimeoutMs: 20_000 }))
    const closed = () => t.delivery({ topic: 'closed.orders' })
    const results = await t.send(publisher, [t.delivery(), closed(), t.delivery(), closed()], 10_000)
    expect(results.map((result) => t.verdict(result))).toEqual(['done', 'retry', 'done', 'retry'])
  })

  it.each(['{}', 'ok', '', '{"stream":"","seq":1}', '{"stream":"x","seq":0}'])(
    'an answer of somebody who is no stream is no acknowledgement: %s',
    async (answer) => {
      const { t, connection } = await begin({})
      const topic = newTopic()
      connection.subscribe(topic, { callback: (_error, message) => void message.respond(answer) })
      await connection.flush()
      const results = await t.send(t.open(), [t.delivery({ topic }), t.delivery()])
      expect(results.map((result) => t.verdict(result))).toEqual(['retry', 'done'])
    },
  )

  it('a header of an event gives the server no orders', async () => {
    const { t, name, count } = await begin({ allow_rollup_hdrs: true })
    const publisher = t.open()
    const headers = { 'Nats-Rollup': 'all', 'nats-expected-stream': 'another' }
    for (let n = 0; n < 3; n += 1) await t.sends(publisher, [t.delivery({ topic: name, headers })])
    expect(await count()).toBe(3)
  })

  it.each(['*', '>', 'a.*', 'a.>', '*.a', 'a\0'])('nothing is published at %j', async (end) => {
    const { t, name, count } = await begin({})
    const results = await t.send(t.open(), [
      t.delivery({ topic: `${name}.${end}` }),
      t.delivery({ topic: `${name}.a*` }),
    ])
    expect(results.map((result) => t.verdict(result))).toEqual(['dead', 'done'])
    expect(await count()).toBe(1)
  })
  it.each(['$JS.API.STREAM.PURGE.', '$JS.API.STREAM.DELETE.', '$SYS.REQ.', '_INBOX.'])(
    'nobody gives the server orders by the subject %s…',
    async (start) => {
      const { t, name, count } = await begin({})
      const publisher = t.open()
      await t.sends(publisher, [t.delivery({ topic: name })])
      const results = await t.send(publisher, [
        t.delivery({ topic: `${start}${name}` }),
        t.delivery({ topic: `${name}.$JS` }),
      ])
      expect(results.map((result) => t.verdict(result))).toEqual(['dead', 'done'])
      expect(await count()).toBe(2)
    },
  )
})
