/** What other people's clients read is what docs/destinations.md says. */
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { afterEach, describe, expect, it } from 'vitest'
import { run } from '../../../scripts/services/command.ts'
import { debianProgram, homeOfService, javaProgram, startService } from '../../../scripts/services/index.ts'
import { consoleConsumer } from '../../../scripts/services/kafka.ts'
import type { OutgoingDelivery, Publisher } from '../../../src/core/spi/index.ts'
import { kafkaPublisher } from '../../../src/publishers/kafka/index.ts'
import { mqttPublisher } from '../../../src/publishers/mqtt.ts'
import { natsPublisher } from '../../../src/publishers/nats.ts'
import { rabbitmqPublisher } from '../../../src/publishers/rabbitmq/index.ts'
import { redisPublisher } from '../../../src/publishers/redis.ts'
import type { PublisherHarness } from '../../../src/testing/suites/index.ts'
import { PublisherFixture } from '../../../src/testing/suites/publisher-fixture.ts'
import { newTopic } from '../broker.ts'
import { addressOf, createTopic } from '../kafka-topic.ts'

const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const HEADER_NOTE = 'für alle'
const KEY_ESCAPED = 'Bestellung%20%E2%84%96%207'
const DATA = '{ "total" : 10.0, "name" : "Müller" }'

const topic = newTopic()
const t = new PublisherFixture({ topic } as PublisherHarness)
const delivery: OutgoingDelivery = t.delivery({
  key: 'Bestellung № 7',
  version: 2,
  tenantId: 'acme',
  aggregateType: 'order',
  aggregateId: '7',
  headers: { traceparent: TRACE, note: HEADER_NOTE },
  data: DATA,
})
const { id } = delivery.event

/** The table of headers in docs/destinations.md, in the order in which they are written. */
const HEADERS: readonly (readonly [string, string])[] = [
  ['traceparent', TRACE],
  ['note', HEADER_NOTE],
  ['event-id', id],
  ['event-type', 'order.placed'],
  ['event-version', '2'],
  ['event-time', '2023-11-14T22:13:20.123Z'],
  ['event-key', 'Bestellung № 7'],
  ['event-tenant', 'acme'],
  ['event-aggregate-type', 'order'],
  ['event-aggregate-id', '7'],
  ['deduplication-id', id],
]

const portOf = (url: string): string => new URL(url).port

const sendBy = async (publisher: Publisher): Promise<void> => {
  await t.sends(t.closing(publisher), [delivery])
}

describe("what other people's clients read", () => {
  afterEach(() => t.close())

  it('redis-cli: fields and values of a stream', async () => {
    const url = await startService('redis@others')
    await sendBy(redisPublisher({ url }))
    const args = ['-p', portOf(url), 'XRANGE', topic, '-', '+']
    const printed = await run(await debianProgram('redis-server', 'usr/bin/redis-cli', args))
    const [, ...lines] = printed.trimEnd().split('\n')
    const fields = [['content-type', 'application/json'], ...HEADERS, ['data', DATA]]
    expect(lines).toEqual(fields.flat())
  })

  it('mosquitto_sub: content type, user properties, payload', async () => {
    const url = await startService('mosquitto@others')
    // The broker keeps it for those who come later.
    await sendBy(mqttPublisher({ url, retain: true }))
    const to = ['-V', '5', '-h', '127.0.0.1', '-p', portOf(url), '-t', topic, '-q', '1']
    const how = ['-C', '1', '-W', '30', '-F', '%q\n%C\n%P\n%p']
    const printed = await run(
      await debianProgram('mosquitto-clients', 'usr/bin/mosquitto_sub', [...to, ...how]),
    )
    const properties = HEADERS.map(([name, value]) => `${name}:${value}`).join(' ')
    expect(printed.trimEnd().split('\n')).toEqual(['1', 'application/json', properties, DATA])
  })

  it('pika of Python: routing key, properties, headers, body', async () => {
    const url = await startService('rabbitmq@others')
    const { connect: connectAmqp } = await import('amqplib')
    const connection = await connectAmqp(url)
    await (await connection.createChannel()).assertQueue(topic)
    await connection.close()
    await sendBy(rabbitmqPublisher({ url }))
    const script = fileURLToPath(new URL('./read-amqp.py', import.meta.url))
    const python = await debianProgram('python3-pika', 'usr/bin/python3', [script, `${url}/%2F`, topic])
    const usr = dirname(dirname(python.args.find((arg) => arg.endsWith('/bin/python3')) as string))
    const PYTHONPATH = join(usr, 'lib', 'python3', 'dist-packages')
    const printed = await run(python, { env: { PYTHONHOME: usr, PYTHONPATH, PYTHONDONTWRITEBYTECODE: '1' } })
    expect(JSON.parse(printed)).toEqual({
      routingKey: topic,
      body: Buffer.from(DATA).toString('base64'),
      contentType: 'application/json',
      deliveryMode: 2,
      messageId: id,
      timestamp: 1_700_000_000,
      type: 'order.placed',
      appId: 'posthaste',
      headers: Object.fromEntries(HEADERS),
    })
  })

  it("NATS's client for Java: subject, headers in ASCII, the id for duplicates, data", async () => {
    const url = await startService('nats@others')
    const { host, username, password } = new URL(url)
    const connection = await connect({ servers: host, user: username, pass: password })
    await (await jetstreamManager(connection)).streams.add({ name: topic, subjects: [topic] })
    await connection.close()
    await sendBy(natsPublisher({ servers: url }))
    const program = fileURLToPath(new URL('./ReadNats.java', import.meta.url))
    const printed = await run(
      await javaProgram('jnats-2.21.5', ['io.nats:jnats:2.21.5'], program, [url, topic]),
    )
    const lines = printed.trimEnd().split('\n')
    const escaped = (value: string): string => (value === HEADER_NOTE ? 'f%C3%BCr%20alle' : value)
    const headers = [['content-type', 'application/json'], ...HEADERS, ['Nats-Msg-Id', id]].map(
      ([name, value = '']) => `header ${name}\t${name === 'event-key' ? KEY_ESCAPED : escaped(value)}`,
    )
    const data = Buffer.from(DATA).toString('base64')
    expect(lines.sort()).toEqual([`subject\t${topic}`, `data\t${data}`, ...headers].sort())
  })

  it("Kafka's own console consumer: key, headers, value", async () => {
    const url = await startService('kafka@others')
    const address = addressOf(url)
    await createTopic(address, topic)
    await sendBy(kafkaPublisher(address))
    const folder = dirname((await homeOfService('kafka@others')) as string)
    const printed = await run(consoleConsumer({ folder }, Number(portOf(url)), topic, 1))
    const headers = [['content-type', 'application/json'], ...HEADERS].map((pair) => pair.join(':'))
    const [time, ...rest] = printed.trimEnd().split('\t')
    expect(time).toMatch(/^CreateTime:\d+$/)
    expect(rest).toEqual(['Partition:0', headers.join(','), 'Bestellung № 7', DATA])
  })
})
