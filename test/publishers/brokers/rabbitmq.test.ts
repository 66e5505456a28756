import { createHash } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ChannelModel, type ConsumeMessage, connect } from 'amqplib'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { homeOfService } from '../../../scripts/services/index.ts'
import { askErlang } from '../../../scripts/services/rabbitmq.ts'
import type { Publisher } from '../../../src/core/spi/index.ts'
import { rabbitmqPublisher } from '../../../src/publishers/rabbitmq/index.ts'
import type { PublisherHarness } from '../../../src/testing/suites/index.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { startProxy } from '../../databases/proxy.ts'
import { newTopic, startBroker } from '../broker.ts'
import { createRabbitmqPlace } from '../places/rabbitmq.ts'
import { testPublisher } from '../run.ts'

testPublisher('rabbitmq')

describe('rabbitmq in particular', () => {
  let place: PublisherHarness
  let t: PublisherFixture
  let url: string
  let connection: ChannelModel
  beforeEach(async () => {
    place = await createRabbitmqPlace()
    t = new PublisherFixture(place)
    url = (await startBroker('rabbitmq', () => ({}) as Publisher)).url
    connection = await connect(url)
  })
  afterEach(async () => {
    await t.close()
    await connection.close()
    await place.dispose()
  })
  const verdicts = (results: Awaited<ReturnType<PublisherFixture['send']>>) =>
    results.map((result) => t.verdict(result))

  it('counts as sent what was confirmed before the time was over', async () => {
    await using proxy = await startProxy(url)
    const publisher = t.closing(rabbitmqPublisher({ url: proxy.url }))
    const ending = new AbortController()
    // Large ones are sent after all others were confirmed.
    const batch = [
      t.delivery({ data: JSON.stringify(`unanswered${'x'.repeat(300_000)}`) }),
      t.delivery({ topic: 'no-queue-of-this-name' }),
      t.delivery(),
    ]
    const silenced = proxy.silenceAt('unanswered', 'before')
    const sending = publisher.send(batch, { signal: ending.signal })
    await silenced
    ending.abort(new Error('too late'))
    expect(verdicts(await sending)).toEqual(['outage', 'retry', 'done'])
  })

  it('writes what AMQP has a place for', async () => {
    const delivery = t.delivery({ key: 'k' })
    await t.sends(t.closing(rabbitmqPublisher({ url, source: 'shop' })), [delivery])
    const channel = await connection.createChannel()
    const { properties } = (await channel.get(place.topic)) as unknown as ConsumeMessage
    expect(properties).toMatchObject({
      contentType: 'application/json',
      deliveryMode: 2,
      messageId: delivery.event.id,
      timestamp: 1_700_000_000,
      type: 'order.placed',
      appId: 'shop',
    })
  })

  it('leaves out a timestamp before 1970, which AMQP has no place for', async () => {
    await t.sends(t.open(), [t.delivery({ occurredAtMs: -1 }), t.delivery({ occurredAtMs: 0 })])
    const channel = await connection.createChannel()
    const next = async () => ((await channel.get(place.topic)) as unknown as ConsumeMessage).properties
    const [before, since] = [await next(), await next()]
    expect([before.timestamp, before.headers?.['event-time']]).toEqual([
      undefined,
      '1969-12-31T23:59:59.999Z',
    ])
    expect([since.timestamp, since.headers?.['event-time']]).toEqual([0, '1970-01-01T00:00:00.000Z'])
  })

  it('charges a missing exchange to those that are for it', async () => {
    const exchange = newTopic()
    const channel = await connection.createChannel()
    await channel.assertExchange(exchange, 'topic')
    await channel.bindQueue(place.topic, exchange, 'orders.#')
    const publisher = rabbitmqPublisher({
      url,
      exchange: ({ key }) => (key === 'lost' ? 'not-there' : exchange),
    })
    const batch = ['a', 'lost', 'b', 'lost', 'c'].map((key, n) =>
      t.delivery({ key, data: String(n), topic: 'orders.placed' }),
    )
    const results = await t.send(t.closing(publisher), batch)
    expect(verdicts(results)).toEqual(['done', 'retry', 'done', 'retry', 'done'])
    const arrived = (await place.received(3)).map(({ body }) => Buffer.from(body).toString())
    // Those without an answer when the channel was closed are sent again.
    expect([...new Set(arrived)].sort()).toEqual(['0', '2', '4'])
  })

  it('charges an exchange that cannot be named to those that it cannot be named for', async () => {
    const publisher = rabbitmqPublisher({
      url,
      exchange: ({ key }) => {
        if (key === 'lost') throw new Error('no exchange for it')
        return key === 'none' ? (undefined as unknown as string) : ''
      },
    })
    const batch = ['a', 'lost', 'b', 'none'].map((key) => t.delivery({ key }))
    const results = verdicts(await t.send(t.closing(publisher), batch))
    expect([results[0], results[2]]).toEqual(['done', 'done'])
    expect(['retry', 'dead']).toContain(results[1])
    expect(['retry', 'dead']).toContain(results[3])
  })

  it('charges an exchange that is closed to us to those that are for it, and looks for no other culprit', async () => {
    const [user, closed] = [newTopic(), newTopic()]
    const channel = await connection.createChannel()
    await channel.assertExchange(closed, 'fanout')
    await addUser(user, `^(amq[.]default|${place.topic})$`)
    const opened = vi.spyOn(Object.getPrototypeOf(connection), 'createConfirmChannel')
    const publisher = rabbitmqPublisher({
      url: url.replace(/\/\/.*@/, `//${user}:word@`),
      exchange: ({ key }) => (key === 'closed' ? closed : ''),
    })
    const batch = Array.from({ length: 40 }, (_, n) => t.delivery({ key: n % 2 === 0 ? 'closed' : 'open' }))
    const results = verdicts(await t.send(t.closing(publisher), batch))
    expect(results).toEqual(batch.map((_, n) => (n % 2 === 0 ? 'retry' : 'done')))
    expect(opened.mock.calls.length).toBeGreaterThan(0)
    expect(opened.mock.calls.length).toBeLessThan(5)
    opened.mockRestore()
  })

  it('tries again what the broker gives back, for which it spends no attempt', async () => {
    const full = newTopic()
    const channel = await connection.createChannel()
    await channel.assertQueue(full, { maxLength: 1, overflow: 'reject-publish' } as object)
    const publisher = t.open()
    await t.sends(publisher, [t.delivery({ topic: full })])
    const results = await t.send(publisher, [t.delivery({ topic: full }), t.delivery()])
    expect(verdicts(results)).toEqual(['retry', 'done'])
    expect(results[0]).toMatchObject({ ok: false, error: { counted: false } })
  })

  it('a header of an event gives the broker no orders', async () => {
    const headers = { CC: 'elsewhere', BCC: 'elsewhere', cc: 'mail' }
    await t.sends(t.open(), [t.delivery({ headers })])
    expect((await place.received(1))[0]?.headers).toMatchObject({ cc: 'mail' })
  })

  it('takes no message of which a name is longer than AMQP allows', async () => {
    const results = await t.send(t.open(), [t.delivery({ topic: 'x'.repeat(300) }), t.delivery()])
    expect(verdicts(results)).toEqual(['dead', 'done'])
  })

  it('takes no message whose exchange is longer than AMQP allows, and keeps the channel for the others', async () => {
    const opened = vi.spyOn(Object.getPrototypeOf(connection), 'createConfirmChannel')
    const publisher = t.closing(
      rabbitmqPublisher({ url, exchange: ({ key }) => (key === 'long' ? 'ü'.repeat(128) : '') }),
    )
    const results = await t.send(publisher, [t.delivery({ key: 'long' }), t.delivery()])
    expect(verdicts(results)).toEqual(['dead', 'done'])
    expect(verdicts(await t.send(publisher, [t.delivery()]))).toEqual(['done'])
    expect(opened.mock.calls.length).toBe(1)
    opened.mockRestore()
  })

  /** The client's, called as a method of the channel. */
  type Publish = (this: ClientChannel, ...args: unknown[]) => boolean
  interface ClientChannel {
    readonly connection: { close(): void }
    pushConfirmCallback(confirmed: unknown): void
  }

  /** Stands in for the client's own, which it is given; before the publisher has a channel. */
  const replacePublish = async (replacement: (real: Publish, plain: Publish) => Publish) => {
    const confirming = Object.getPrototypeOf(await connection.createConfirmChannel())
    const real: Publish = confirming.publish
    const plain: Publish = Object.getPrototypeOf(confirming).publish
    const spy = vi.spyOn(confirming, 'publish').mockImplementation(replacement(real, plain) as never)
    onTestFinished(() => spy.mockRestore())
  }

  it('takes no answer for that of another message where the client counts what it could not write', async () => {
    // As versions before 1.0.4 do it.
    await replacePublish(
      (_, plain) =>
        function (exchange, routingKey, body, properties, confirmed) {
          this.pushConfirmCallback(confirmed)
          return plain.call(this, exchange, routingKey, body, properties)
        },
    )
    const full = newTopic()
    const channel = await connection.createChannel()
    await channel.assertQueue(full, { maxLength: 1, overflow: 'reject-publish' } as object)
    const publisher = t.open()
    await t.sends(publisher, [t.delivery({ topic: full })])
    const unwritable = () => t.delivery({ headers: { large: 'x'.repeat(100_000) } })
    const toFull = () => t.delivery({ topic: full })
    const batch = [t.delivery(), unwritable(), toFull(), t.delivery(), unwritable(), toFull(), t.delivery()]
    const results = verdicts(await t.send(publisher, batch, 10_000))
    expect(results).toEqual(['done', 'dead', 'retry', 'done', 'dead', 'retry', 'done'])
    expect(verdicts(await t.send(publisher, [toFull(), t.delivery()], 10_000))).toEqual(['retry', 'done'])
    expect((await place.received(4)).length).toBe(4)
  })

  it('does not take a connection that the client has begun to close for a fault of the message', async () => {
    let closes = 1
    await replacePublish(
      (real) =>
        function (...args) {
          if (closes-- > 0) this.connection.close()
          return real.apply(this, args)
        },
    )
    const publisher = t.open()
    const batch = [t.delivery(), t.delivery()]
    expect(verdicts(await t.send(publisher, batch))).toEqual(['outage', 'outage'])
    expect(verdicts(await t.send(publisher, batch))).toEqual(['done', 'done'])
  })

  const siteOf = async () => {
    const home = (await homeOfService('rabbitmq@publishers')) as string
    return { folder: dirname(home), home, port: Number(new URL(url).port) }
  }

  /** Somebody with the password "word" who may write only where the pattern says. */
  const addUser = async (name: string, writes: string): Promise<void> => {
    const site = await siteOf()
    const salt = Buffer.from('salt')
    const hash = createHash('sha256').update(salt).update('word').digest()
    const user = { name, password_hash: Buffer.concat([salt, hash]).toString('base64'), tags: '' }
    const permission = { user: name, vhost: '/', configure: '^$', write: writes, read: '^$' }
    const file = join(site.home, `${name}.json`)
    writeFileSync(file, JSON.stringify({ users: [user], permissions: [permission] }))
    await askErlang(site, `rabbit_definitions_import_local_filesystem load [false,"${file}"]`)
    rmSync(file)
  }

  /** As if its memory were full, or not. */
  const setFull = async (isFull: boolean): Promise<void> => {
    await askErlang(
      await siteOf(),
      `vm_memory_monitor set_vm_memory_high_watermark [${isFull ? '0.000001' : '0.4'}]`,
    )
  }

  it('[62] refuses at once while the broker takes nothing, and goes on by itself', async () => {
    const publisher = t.open()
    await t.sends(publisher, [t.delivery()])
    await setFull(true)
    const sent: ReturnType<PublisherFixture['send']>[] = []
    try {
      // The broker says so when the next one comes; those that are sent before the news arrive wait.
      let refusal: unknown
      while (refusal === undefined) {
        const sending = t.send(publisher, [t.delivery()], 120_000)
        sent.push(sending)
        void sending.then(([result]) => {
          if (result?.ok === false) refusal = result.error
        })
        await sleep(20)
      }
      expect(String(refusal)).toContain('RabbitMQ takes nothing now: low on memory')
    } finally {
      await setFull(false)
    }
    const [waited, ...others] = (await Promise.all(sent)).map((results) => verdicts(results)[0])
    expect([waited, others.at(-1)]).toEqual(['done', 'outage'])
    let accepted = false
    while (!accepted) accepted = (await t.send(publisher, [t.delivery()]))[0]?.ok === true
  })

  it('writes no more than the socket takes, and goes on when it takes more', async () => {
    // Before the publisher has a channel.
    const written = vi.spyOn(Object.getPrototypeOf(await connection.createConfirmChannel()), 'publish')
    const publisher = t.open()
    await t.sends(publisher, [t.delivery()])
    written.mockClear()
    await setFull(true)
    // Somebody else hears that the broker reads nothing any more; to each it says so only when something comes.
    let isFull = false
    connection.once('blocked', () => {
      isFull = true
    })
    const channel = await connection.createChannel()
    while (!isFull) {
      channel.publish('', 'nobody', Buffer.from('?'))
      await sleep(20)
    }
    const total = 400
    const data = JSON.stringify('x'.repeat(200_000))
    const sending = t.send(
      publisher,
      Array.from({ length: total }, () => t.delivery({ data })),
      120_000,
    )
    const others: (typeof sending)[] = []
    try {
      while (written.mock.calls.length === 0) await sleep(5)
      let refusal: unknown
      while (refusal === undefined) {
        const one = t.send(publisher, [t.delivery()], 120_000)
        others.push(one)
        void one.then(([result]) => {
          if (result?.ok === false) refusal = result.error
        })
        await sleep(20)
      }
      expect(written.mock.calls.length).toBeLessThan(total)
    } finally {
      await setFull(false)
    }
    expect(new Set(verdicts(await sending))).toEqual(new Set(['done']))
    await Promise.all(others)
    expect(written.mock.calls.length).toBeGreaterThanOrEqual(total)
    written.mockRestore()
  })
})
