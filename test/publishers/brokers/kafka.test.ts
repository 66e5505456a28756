import zlib from 'node:zlib'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startService } from '../../../scripts/services/index.ts'
import { createOutbox } from '../../../src/core/outbox.ts'
import { type KafkaPublisherOptions, kafkaPublisher } from '../../../src/publishers/kafka/index.ts'
import { memoryStore } from '../../../src/stores/memory/index.ts'
import type { PublisherHarness } from '../../../src/testing/suites/index.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { newTopic } from '../broker.ts'
import { addressOf, createTopic, deleteTopic, type KafkaAddress, readTopic } from '../kafka-topic.ts'
import { untilThere } from '../received.ts'
import { testPublisher } from '../run.ts'

testPublisher('kafka')

/** Keys and their partition of three by Kafka's own clients: its tests name the hashes. */
const PARTITIONS = [
  ['21', -973_932_308],
  ['foobar', -790_332_482],
  ['a-little-bit-long-string', -985_981_536],
  ['a-little-bit-longer-string', -1_486_304_829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58_897_971],
  ['abc', 479_470_107],
] as const

describe('kafka in particular', () => {
  let address: KafkaAddress
  let topic: string
  let t: PublisherFixture
  beforeAll(async () => {
    address = addressOf(await startService('kafka@publishers'))
  })
  beforeEach(() => {
    topic = newTopic()
    t = new PublisherFixture({ topic } as PublisherHarness)
  })
  afterEach(() => t.close())
  const open = (options: Partial<KafkaPublisherOptions> = {}) =>
    t.closing(kafkaPublisher({ ...address, ...options }))
  /** What of transactions was committed can be read a moment later. */
  const arrived = async (values: readonly string[]): Promise<void> => {
    const found = await untilThere(values.length, () => readTopic(address, topic))
    expect(found.map(({ value }) => String(value))).toEqual(values)
  }
  const verdicts = (results: Awaited<ReturnType<PublisherFixture['send']>>) =>
    results.map((result) => t.verdict(result))

  it("finds a key's partition as Kafka's own clients do", async () => {
    await createTopic(address, topic, 3)
    await t.sends(
      open(),
      PARTITIONS.map(([key]) => t.delivery({ key })),
    )
    const found = (await readTopic(address, topic, 3)).map(({ key, partition }) => [String(key), partition])
    expect(Object.fromEntries(found)).toEqual(
      Object.fromEntries(PARTITIONS.map(([key, hash]) => [key, (hash & 0x7fff_ffff) % 3])),
    )
  })

  it('spreads events without a key', async () => {
    await createTopic(address, topic, 3)
    await t.sends(
      open(),
      Array.from({ length: 30 }, () => t.delivery()),
    )
    const partitions = (await readTopic(address, topic, 3)).map(({ partition }) => partition)
    expect([0, 1, 2].map((each) => partitions.filter((found) => found === each).length)).toEqual([10, 10, 10])
  })

  const hasZstd = 'zstdCompressSync' in zlib

  it.runIf(!hasZstd)('says that this Node has no zstd', () => {
    expect(() => open({ compression: 'zstd' })).toThrow("'zstd' needs Node 22.15 or later")
  })

  it.each(['gzip' as const, 'snappy' as const, 'lz4' as const, ...(hasZstd ? ['zstd' as const] : [])])(
    'compresses with %s',
    async (compression) => {
      await createTopic(address, topic)
      const data = JSON.stringify('posthaste '.repeat(1_000))
      await t.sends(open({ compression }), [t.delivery({ data }), t.delivery({ data })])
      await arrived([data, data])
    },
  )

  it('[60] divides what the broker finds too large until the one is found', async () => {
    await createTopic(address, topic, 1, { 'max.message.bytes': '5000' })
    const data = (n: number): string => JSON.stringify(n === 5 ? 'x'.repeat(6_000) : n)
    const batch = Array.from({ length: 9 }, (_, n) => t.delivery({ data: data(n) }))
    const publisher = open()
    expect(verdicts(await t.send(publisher, batch))).toEqual(batch.map((_, n) => (n === 5 ? 'dead' : 'done')))
    await t.sends(publisher, [t.delivery({ data: '9' })])
    await arrived(['0', '1', '2', '3', '4', '6', '7', '8', '9'])
  })

  it.each(['', ' ', '.', '..', 'a b', 'é', 'a/b', 'a\0', 'x'.repeat(250), 'x'.repeat(70_000)])(
    'a name that no topic can have is about its event alone: %j',
    async (name) => {
      await createTopic(address, topic, 1)
      const results = await t.send(open(), [t.delivery(), t.delivery({ topic: name }), t.delivery()])
      expect(verdicts(results)).toEqual(['done', 'dead', 'done'])
    },
  )

  it('names the topic that does not exist', async () => {
    const [result] = await t.send(open(), [t.delivery()])
    expect(String(result?.ok === false && result.error)).toContain(
      `topic ${topic} does not exist (Kafka's code 3)`,
    )
  })

  it('sends more than a request takes in several', async () => {
    await createTopic(address, topic)
    const data = JSON.stringify('x'.repeat(300_000))
    await t.sends(
      open(),
      Array.from({ length: 10 }, () => t.delivery({ data, key: 'k' })),
    )
    await arrived(Array.from({ length: 10 }, () => data))
  })

  it('does not let events overtake one of their key that is refused, and spends no attempt on them', async () => {
    await createTopic(address, topic)
    const large = JSON.stringify('x'.repeat(2_000))
    const batch = [
      t.delivery({ key: 'k', data: '1' }),
      t.delivery({ key: 'k', data: large }),
      t.delivery({ key: 'k', data: '3' }),
      t.delivery({ key: 'l', data: '4' }),
    ]
    const results = await t.send(open({ maxMessageBytes: 1_500 }), batch)
    expect(verdicts(results)).toEqual(['done', 'dead', 'retry', 'done'])
    expect(results[2]).toMatchObject({ error: { code: 'POSTHASTE_RETRY_AFTER', counted: false } })
    await arrived(['1', '4'])
  })

  it('goes on in the key of a dead event, in order and with all attempts', async () => {
    await createTopic(address, topic)
    const outbox = createOutbox({
      store: memoryStore(),
      destinations: {
        kafka: { to: kafkaPublisher({ ...address, maxMessageBytes: 1_500 }), events: ['*'], topic },
      },
    })
    const payloads = [0, 'x'.repeat(2_000), 2, 3, 4, 'x'.repeat(2_000), 6]
    await outbox.transaction(async (tx) => {
      for (const payload of payloads) await outbox.publish(tx, { type: 'order.placed', key: 'k', payload })
    })
    await outbox.start()
    await outbox.flush()
    await arrived(['0', '2', '3', '4', '6'])
    const { deliveries } = await outbox.inspect.list({ limit: 10 })
    expect(deliveries.map(({ status }) => status).sort()).toEqual([
      ...Array.from({ length: 2 }, () => 'dead'),
      ...Array.from({ length: 5 }, () => 'done'),
    ])
    expect(deliveries.map(({ attempts }) => attempts)).toEqual(payloads.map(() => 1))
    await outbox.close()
  })

  it('spends no attempt on a topic that was there a moment ago: the broker may have just begun', async () => {
    await createTopic(address, topic)
    const publisher = open()
    await t.sends(publisher, [t.delivery({ data: '1' })])
    await deleteTopic(address, topic)
    // What the client knows of it counts until it is refused.
    expect(verdicts(await t.send(publisher, [t.delivery({ data: '2' })]))).toEqual(['outage'])
    expect(verdicts(await t.send(publisher, [t.delivery({ data: '2' })]))).toEqual(['outage'])
    await createTopic(address, topic)
    await t.sends(publisher, [t.delivery({ data: '2' })])
    await arrived(['2'])
  })

  it('sends a batch as one transaction', async () => {
    await createTopic(address, topic)
    const publisher = open({ transactionalId: newTopic() })
    await t.sends(publisher, [t.delivery({ data: '1' }), t.delivery({ data: '2' })])
    await t.sends(publisher, [t.delivery({ data: '3' })])
    await arrived(['1', '2', '3'])
  })

  it('gives a transaction up for one that is refused, and sends the others in the next', async () => {
    await createTopic(address, topic, 1, { 'max.message.bytes': '5000' })
    const large = JSON.stringify('x'.repeat(6_000))
    const batch = ['1', large, '3', '4'].map((data) => t.delivery({ data }))
    const results = await t.send(open({ transactionalId: newTopic() }), batch)
    expect(verdicts(results)).toEqual(['done', 'dead', 'done', 'done'])
    await arrived(['1', '3', '4'])
  })

  it('[59] is fenced off by another of its transactional id, and comes back with a producer of its own', async () => {
    await createTopic(address, topic)
    const transactionalId = newTopic()
    const [first, second] = [open({ transactionalId }), open({ transactionalId })]
    await t.sends(first, [t.delivery({ data: '1' })])
    await t.sends(second, [t.delivery({ data: '2' })])
    const fenced = await t.send(first, [t.delivery({ data: 'fenced' })])
    expect(verdicts(fenced)).toEqual(['outage'])
    await t.sends(first, [t.delivery({ data: '3' })])
    await arrived(['1', '2', '3'])
  })
})
