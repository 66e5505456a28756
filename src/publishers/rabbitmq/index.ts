/**
 * `posthaste/publishers/rabbitmq`: a persistent message of AMQP 0-9-1 per event, counted as sent when the broker has
 * confirmed it. The delivery's topic is the routing key. Exchanges and queues are not declared here: who reads them
 * knows what they must be like.
 */
import { InvalidOptionError, OutageError, PermanentError } from '../../core/errors.ts'
import { type EventRecord, shownWithKind } from '../../core/model/index.ts'
import type { OutgoingDelivery, Publisher, SendResult } from '../../core/spi/index.ts'
import { brokerPublisher } from '../shared/broker.ts'
import { checkOptions } from '../shared/check-options.ts'
import { type FormatOptions, messages } from '../shared/message.ts'
import { loadPeer } from '../shared/peer.ts'
import { failed, makeEach } from '../shared/results.ts'
import { type AmqpModule, type Connection, Link } from './link.ts'
import { type Parcel, publishAll } from './publish.ts'

export interface RabbitmqPublisherOptions extends FormatOptions {
  /** `amqp://user:password@host:port/vhost`, or `amqps://…`. */
  readonly url: string
  /** Its name, or a function of the event. Default the one without a name: the routing key is the name of a queue. */
  readonly exchange?: string | ((event: EventRecord) => string)
  /** A message that no queue takes is a failure of its delivery. Default true. */
  readonly mandatory?: boolean
  /** The broker writes it to disk. Default true. */
  readonly persistent?: boolean
  /** More of what the client's `connect` takes for the socket, such as certificates. */
  readonly connection?: Readonly<Record<string, unknown>>
  /** How long connecting may take, in ms. Default 5,000; 1 to 60,000. */
  readonly connectTimeoutMs?: number
}

/** The codes with which the broker closes a channel for what a message is like. */
const REFUSED = 406

/** The broker takes these two for more routing keys, and refuses the message where they are no lists of them. */
const ORDERS = new Set(['CC', 'BCC'])

/** The most that AMQP takes for a name. */
const MAX_NAME_BYTES = 255

/** Every event would be refused. */
const checkName = (option: 'exchange' | 'source', value: unknown): void => {
  if (typeof value !== 'string' || Buffer.byteLength(value) <= MAX_NAME_BYTES) return
  throw new InvalidOptionError(
    `rabbitmqPublisher: ${option} must have at most ${MAX_NAME_BYTES} bytes, not ${Buffer.byteLength(value)}`,
    { option, value },
  )
}

/** Of one event. The client would throw it back, and with it the channel would be lost for those beside it. */
const checkNameOf = (what: 'exchange' | 'routing key', value: string): void => {
  const bytes = Buffer.byteLength(value)
  if (bytes <= MAX_NAME_BYTES) return
  throw new PermanentError(
    `it is no message of AMQP: its ${what} has ${bytes} bytes, and may have ${MAX_NAME_BYTES}`,
  )
}

const judged = (error: unknown): unknown => {
  const { code, message } = error as { readonly code?: unknown; readonly message: string }
  if (code === REFUSED) return new PermanentError(`RabbitMQ refuses it: ${message}`, { cause: error })
  return error
}

const asBuffer = (body: string | Uint8Array): Buffer =>
  typeof body === 'string' ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength)

export const rabbitmqPublisher = (options: RabbitmqPublisherOptions): Publisher => {
  checkOptions('rabbitmqPublisher', options, {
    url: { kind: 'text' },
    exchange: { kind: 'text or function', optional: true },
    mandatory: { kind: 'flag', optional: true },
    persistent: { kind: 'flag', optional: true },
    connection: { kind: 'object', optional: true },
    connectTimeoutMs: { kind: 'number', from: 1, to: 60_000, optional: true },
    format: { kind: 'choice', of: ['plain', 'cloudevents', 'cloudevents-binary'], optional: true },
    source: { kind: 'text', optional: true },
  })
  const { url, exchange = '', mandatory = true, persistent = true, connectTimeoutMs = 5_000 } = options
  const { source = 'posthaste', connection: given = {} } = options
  checkName('exchange', exchange)
  checkName('source', source)
  const messageOf = messages(options, 'cloudEvents:')

  /** Without a name, the client would take it for the exchange that has none. */
  const exchangeOf = (event: EventRecord): string => {
    const name: unknown = typeof exchange === 'string' ? exchange : exchange(event)
    if (typeof name === 'string') return name
    throw new TypeError(
      `rabbitmqPublisher: exchange must give a text for "${event.type}", not ${shownWithKind(name)}`,
    )
  }

  const parcelOf = (delivery: OutgoingDelivery, onAnswer: Parcel['onAnswer']): Parcel => {
    const { body, contentType, headers } = messageOf(delivery)
    const { event, deduplicationId, topic } = delivery
    const exchangeName = exchangeOf(event)
    checkNameOf('exchange', exchangeName)
    checkNameOf('routing key', topic)
    return {
      exchange: exchangeName,
      routingKey: topic,
      body: asBuffer(body),
      onAnswer,
      properties: {
        mandatory,
        persistent,
        contentType,
        messageId: deduplicationId,
        // In seconds since 1970, and never before; the header has the milliseconds, and every time.
        ...(event.occurredAtMs < 0 ? {} : { timestamp: Math.floor(event.occurredAtMs / 1_000) }),
        type: event.type,
        appId: source,
        headers: Object.fromEntries([...headers].filter(([name]) => !ORDERS.has(name))),
      },
    }
  }

  return brokerPublisher<Link>({
    name: 'RabbitMQ',
    maxBatch: 500,
    async open(broken) {
      const { connect } = await loadPeer<AmqpModule>('amqplib')
      // The client has no other way to drop a connection whose other end does not answer.
      const socket = new AbortController()
      const connecting = connect(url, {
        noDelay: true,
        keepAlive: true,
        ...given,
        timeout: connectTimeoutMs,
        signal: socket.signal,
      })
      const connection: Connection = await connecting
      connection.on('error', broken)
      connection.on('close', broken)
      return new Link(connection, () => socket.abort())
    },
    end: (link) => link.end(),
    async send(link, deliveries, { answered }) {
      const { blocked } = link
      // The broker would not read it, and it would wait here, in memory.
      if (blocked !== null) {
        const result = failed(new OutageError(`RabbitMQ takes nothing now: ${blocked}`))
        return deliveries.map((): SendResult => result)
      }
      const { made, around } = makeEach(deliveries, (delivery, at) =>
        parcelOf(delivery, (result) => {
          answered[at] = result
        }),
      )
      const results = await publishAll(link, made)
      return around(results.map((result) => (result.ok ? result : failed(judged(result.error)))))
    },
  })
}
