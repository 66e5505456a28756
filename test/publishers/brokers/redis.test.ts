import { createClient } from 'redis'
import { describe, expect, it, onTestFinished } from 'vitest'
import { removeService, startService } from '../../../scripts/services/index.ts'
import { createOutbox } from '../../../src/core/outbox.ts'
import { NOOP_METRICS } from '../../../src/core/runtime/metrics.ts'
import type { Publisher } from '../../../src/core/spi/index.ts'
import { redisPublisher } from '../../../src/publishers/redis.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { startProxy } from '../../databases/proxy.ts'
import { newTopic, startBroker } from '../broker.ts'
import { untilThere } from '../received.ts'
import { testPublisher } from '../run.ts'

testPublisher('redis')

describe('redis in particular', () => {
  const begin = async () => {
    const { url } = await startBroker('redis', () => ({}) as Publisher)
    const client = createClient({ url })
    await client.connect()
    const t = new PublisherFixture({ topic: newTopic() } as never)
    onTestFinished(async () => {
      await t.close()
      client.destroy()
    })
    return { url, client, t }
  }

  /** What is sent to the stream `wrong` gets the answer; `used` has the connections on which anything was sent. */
  const beginAnswering = async (answer: string) => {
    const { url, client, t } = await begin()
    const wrong = newTopic()
    await client.set(wrong, 'this is no stream')
    const proxy = await startProxy(url, (data) =>
      Buffer.from(data.toString('latin1').replaceAll(/-WRONGTYPE [^\r]*/g, `-${answer}`), 'latin1'),
    )
    onTestFinished(() => proxy[Symbol.asyncDispose]())
    const used = new Set<number>()
    proxy.onSent((connection) => void used.add(connection))
    const publisher = t.closing(redisPublisher({ url: proxy.url }))
    const send = async (...topics: string[]) =>
      (
        await t.send(
          publisher,
          topics.map((topic) => t.delivery({ topic })),
        )
      ).map((result) => t.verdict(result))
    return { send, topic: t.harness.topic, wrong, used }
  }

  it('[65] counts as sent only what enough replicas have, and spends no attempt on the rest', async () => {
    const broker = await startBroker('redis', (url) => redisPublisher({ url }))
    const t = new PublisherFixture({ topic: newTopic() } as never)
    onTestFinished(async () => {
      await t.close()
      await broker.close()
    })
    // This server has none.
    const waiting = t.closing(redisPublisher({ url: broker.url, waitForReplicas: 1, waitMs: 50 }))
    const results = await t.send(waiting, [t.delivery(), t.delivery()])
    expect(results.map((result) => t.verdict(result))).toEqual(['outage', 'outage'])
    const relaxed = t.closing(redisPublisher({ url: broker.url }))
    await t.sends(relaxed, [t.delivery()])
  })

  it('a stream that is closed to us is about its events alone; a command is not', async () => {
    const { url, client, t } = await begin()
    const user = newTopic()
    onTestFinished(async () => {
      const other = createClient({ url })
      await other.connect()
      await other.sendCommand(['ACL', 'DELUSER', user])
      other.destroy()
    })
    await client.sendCommand(['ACL', 'SETUSER', user, 'on', '>word', '+@all', `~${t.harness.topic}`])
    const publisher = t.closing(redisPublisher({ url: url.replace('//', `//${user}:word@`) }))
    const send = async () =>
      (await t.send(publisher, [t.delivery(), t.delivery({ topic: 'closed' }), t.delivery()])).map((result) =>
        t.verdict(result),
      )
    expect(await send()).toEqual(['done', 'retry', 'done'])
    await client.sendCommand(['ACL', 'SETUSER', user, '-xadd'])
    expect(await send()).toEqual(['outage', 'outage', 'outage'])
  })

  it.each([
    'READONLY You are read only',
    'MASTERDOWN Link is down',
    'LOADING Redis is loading',
    'CLUSTERDOWN The cluster is down',
    'NOAUTH Authentication required.',
  ])('an answer about the server spends no attempt, and the next send connects anew: %s', async (answer) => {
    const { send, topic, wrong, used } = await beginAnswering(answer)
    expect(await send(topic)).toEqual(['done'])
    expect(await send(topic)).toEqual(['done'])
    expect(used.size).toBe(1)
    expect(await send(topic, wrong, topic)).toEqual(['done', 'outage', 'done'])
    expect(await send(topic)).toEqual(['done'])
    expect(used.size).toBe(2)
  })

  it.each([
    ['an entry', 'unanswered', {}],
    ['the question for replicas', 'WAIT', { waitForReplicas: 1, waitMs: 1 }],
  ])(
    'a connection that falls silent at %s is given up in time, and left for a new one',
    async (_, text, options) => {
      const { url, t } = await begin()
      const proxy = await startProxy(url)
      onTestFinished(() => proxy[Symbol.asyncDispose]())
      const publisher = t.closing(redisPublisher({ url: proxy.url, answerTimeoutMs: 300, ...options }))
      const silenced = proxy.silenceAt(text, 'before')
      const delivery = t.delivery({ data: '"unanswered"' })
      const [result] = await t.send(publisher, [delivery], 20_000)
      await silenced
      expect(t.verdict(result)).toBe('outage')
      expect(String((result as { readonly error: unknown }).error)).toMatch(
        /Redis said nothing for 30[01] ms/,
      )
      const used = new Set<number>()
      proxy.onSent((connection) => void used.add(connection))
      const [again] = await t.send(publisher, [delivery], 20_000)
      // This server has no replicas, which it says at once.
      if (text === 'WAIT')
        expect(String((again as { readonly error: unknown }).error)).toContain('0 of 1 replicas')
      else expect(t.verdict(again)).toBe('done')
      expect([...used]).toEqual([2])
    },
  )

  it.each(['MOVED 1 127.0.0.1:1', 'ASK 1 127.0.0.1:1'])(
    'a stream that another server of a cluster has is about its events alone: %s',
    async (answer) => {
      const { send, topic, wrong, used } = await beginAnswering(answer)
      expect(await send(topic, wrong, topic)).toEqual(['done', 'retry', 'done'])
      expect(await send(topic)).toEqual(['done'])
      expect(used.size).toBe(1)
    },
  )

  it('goes on at the new primary after a failover, though the old one keeps the connection', async () => {
    const [OLD, NEW] = ['redis@oldprimary', 'redis@newprimary']
    const [oldUrl, newUrl] = [await startService(OLD), await startService(NEW)]
    const proxy = await startProxy(oldUrl)
    const used = new Set<number>()
    proxy.onSent((connection) => void used.add(connection))
    const clients = await Promise.all(
      [oldUrl, newUrl].map(
        async (url) =>
          await createClient({ url })
            .on('error', () => undefined)
            .connect(),
      ),
    )
    const [old, next] = clients as [(typeof clients)[0], (typeof clients)[0]]
    const topic = newTopic()
    const usedAtOpenings = new Set<number>()
    const outbox = createOutbox({
      store: memoryStore(),
      pollIntervalMs: 20,
      metrics: {
        ...NOOP_METRICS,
        breakerState(_destination, state) {
          if (state === 'open') usedAtOpenings.add(used.size)
        },
      },
      destinations: {
        redis: {
          to: redisPublisher({ url: proxy.url }),
          events: ['*'],
          topic,
          breaker: { threshold: 3, openMs: 50, maxOpenMs: 50 },
        },
      },
    })
    onTestFinished(async () => {
      await outbox.close()
      for (const client of clients) client.destroy()
      await proxy[Symbol.asyncDispose]()
      await removeService(OLD)
      await removeService(NEW)
    })
    await outbox.start()
    const publish = (n: number) =>
      outbox.transaction((tx) => outbox.publish(tx, { type: 'order.placed', key: 'k', payload: { n } }))
    await publish(1)
    await untilThere(1, async () => (await old.xRange(topic, '-', '+')) ?? [])
    const { port } = new URL(newUrl)
    await old.sendCommand(['REPLICAOF', '127.0.0.1', port])
    await publish(2)
    // The address still leads to the old one: a connection for each send that the breaker lets through, and no more.
    await untilThere(3, async () => [...usedAtOpenings])
    expect([...usedAtOpenings].slice(0, 3)).toEqual([3, 4, 5])
    proxy.redirect(newUrl)
    const [entry] = await untilThere(1, async () => (await next.xRange(topic, '-', '+')) ?? [])
    expect(entry?.message.data).toBe('{"n":2}')
    await outbox.flush()
    const { deliveries } = await outbox.inspect.list({ limit: 10 })
    expect(deliveries.map(({ status, attempts }) => [status, attempts])).toEqual([
      ['done', 1],
      ['done', 1],
    ])
  })

  it('a header cannot pass for the payload', async () => {
    const { url, client, t } = await begin()
    const { topic } = t.harness
    await t.sends(t.closing(redisPublisher({ url })), [
      t.delivery({ headers: { data: 'forged', Data: 'forged' } }),
    ])
    const [entry] = (await client.sendCommand(['XRANGE', topic, '-', '+'])) as unknown as [[string, string[]]]
    expect(entry[1]).not.toContain('forged')
  })
})
