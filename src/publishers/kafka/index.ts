/**
 * `posthaste/publishers/kafka`: a record of Apache Kafka per event, written by an idempotent producer and counted as sent
 * when all replicas in sync have it. The delivery's topic is the topic, the event's key is the record's: it decides the
 * partition, as Kafka's own clients do it.
 */
import zlib from 'node:zlib'
import { InvalidOptionError, OutageError, PermanentError } from '../../core/errors.ts'
import type { OutgoingDelivery, Publisher, SendResult } from '../../core/spi/index.ts'
import { brokerPublisher } from '../shared/broker.ts'
import { checkOptions } from '../shared/check-options.ts'
import { type FormatOptions, type Message, messages } from '../shared/message.ts'
import { loadPeer } from '../shared/peer.ts'
import { failed } from '../shared/results.ts'
import { type KafkaModule, outageOf, topicFailure } from './client.ts'
import { type Parcel, Shipment } from './produce.ts'
import { Session, type Waiting } from './session.ts'

export interface KafkaPublisherOptions extends FormatOptions {
  /** `host:port`, one or several of a cluster. */
  readonly brokers: string | readonly string[]
  /** How brokers know us. Default `posthaste`. */
  readonly clientId?: string
  /** Credentials, as the client takes them. Default none. */
  readonly sasl?: {
    readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512' | 'OAUTHBEARER'
    readonly username?: string
    readonly password?: string
    readonly token?: string
  }
  /** True, or what `tls.connect` takes. Default false. */
  readonly tls?: boolean | Readonly<Record<string, unknown>>
  /** Default `none`. */
  readonly compression?: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd'
  /** Each send becomes one transaction under this id. No two processes may share it. Default none. */
  readonly transactionalId?: string
  /** The most that a record, and all records of a partition in one request, may have. Default 1,000,000; 1,000 to 100,000,000. */
  readonly maxMessageBytes?: number
  /** How long connecting may take, in ms. Default 5,000; 1 to 60,000. */
  readonly connectTimeoutMs?: number
  /** How long an answer may take, in ms. Default 10,000; 1 to 300,000. */
  readonly requestTimeoutMs?: number
}

type KafkaSession = Session<readonly SendResult[]>

/** Lengths and numbers beside the texts of a record, and of each header. */
const RECORD_OVERHEAD = 96
const HEADER_OVERHEAD = 10

/** A leader that has moved is noticed at once, by the answer; this is for partitions that were added. */
const METADATA_MAX_AGE_MS = 60_000
/** So long after connecting, a topic that was there and is not means that the broker has just begun. */
const BEGINNING_MS = 30_000
const MAX_KNOWN = 10_000
const TRANSACTION_RETRIES = 100
const TRANSACTION_RETRY_MS = 20

/** As brokers have it. They close the connection, for everybody, when they are asked about one of tens of thousands of letters. */
const isTopicName = (name: string): boolean => /^(?!\.{1,2}$)[\w.-]{1,249}$/.test(name)

const asBuffer = (body: string | Uint8Array): Buffer =>
  typeof body === 'string' ? Buffer.from(body) : Buffer.from(body.buffer, body.byteOffset, body.byteLength)

const brokersOf = ({ brokers }: KafkaPublisherOptions): readonly string[] => {
  const list = typeof brokers === 'string' ? brokers.split(',') : brokers
  const isList = Array.isArray(list) && list.length > 0
  if (isList && list.every((each) => typeof each === 'string' && /^\S+$/.test(each))) return [...list]
  throw new InvalidOptionError('kafkaPublisher: brokers must be host:port, or a list of them', {
    option: 'brokers',
    value: brokers,
  })
}

/** Names come again with every event. */
const names = new Map<string, Buffer>()
const MAX_NAMES = 1_000

const nameOf = (name: string): Buffer => {
  const known = names.get(name)
  if (known !== undefined) return known
  const bytes = Buffer.from(name)
  if (names.size < MAX_NAMES) names.set(name, bytes)
  return bytes
}

const headersOf = ({ contentType, headers }: Message): Map<Buffer, Buffer> => {
  const all = new Map([[nameOf('content-type'), Buffer.from(contentType)]])
  for (const [name, value] of headers) all.set(nameOf(name), Buffer.from(value))
  return all
}

const bytesOf = (key: Buffer | undefined, value: Buffer, headers: ReadonlyMap<Buffer, Buffer>): number => {
  let bytes = RECORD_OVERHEAD + (key?.byteLength ?? 0) + value.byteLength
  for (const [name, text] of headers) bytes += HEADER_OVERHEAD + name.byteLength + text.byteLength
  return bytes
}

export const kafkaPublisher = (options: KafkaPublisherOptions): Publisher => {
  checkOptions('kafkaPublisher', options, {
    brokers: { kind: 'anything' },
    clientId: { kind: 'text', optional: true },
    sasl: { kind: 'object', optional: true },
    tls: { kind: 'flag or object', optional: true },
    compression: { kind: 'choice', of: ['none', 'gzip', 'snappy', 'lz4', 'zstd'], optional: true },
    transactionalId: { kind: 'text', optional: true },
    maxMessageBytes: { kind: 'number', from: 1_000, to: 100_000_000, optional: true },
    connectTimeoutMs: { kind: 'number', from: 1, to: 60_000, optional: true },
    requestTimeoutMs: { kind: 'number', from: 1, to: 300_000, optional: true },
    format: { kind: 'choice', of: ['plain', 'cloudevents', 'cloudevents-binary'], optional: true },
    source: { kind: 'text', optional: true },
  })
  if (options.compression === 'zstd' && !('zstdCompressSync' in zlib))
    throw new InvalidOptionError("kafkaPublisher: compression 'zstd' needs Node 22.15 or later", {
      option: 'compression',
      value: options.compression,
    })
  const { clientId = 'posthaste', sasl, tls = false, compression = 'none', transactionalId } = options
  const { maxMessageBytes = 1_000_000, connectTimeoutMs = 5_000, requestTimeoutMs = 10_000 } = options
  const messageOf = messages(options, 'ce_')
  const settings = {
    clientId,
    bootstrapBrokers: brokersOf(options),
    idempotent: true,
    // We try again; not the client, which would do so beyond every deadline. But a transaction cannot begin before the
    // broker has written down the end of the last one, and the client has to ask until it has.
    retries: transactionalId === undefined ? false : TRANSACTION_RETRIES,
    retryDelay: TRANSACTION_RETRY_MS,
    autocreateTopics: false,
    metadataMaxAge: METADATA_MAX_AGE_MS,
    // Nobody in particular: the client would claim to be producer 0, and be refused where its id is known already.
    producerId: -1n,
    producerEpoch: -1,
    compression,
    connectTimeout: connectTimeoutMs,
    requestTimeout: requestTimeoutMs,
    timeout: requestTimeoutMs,
    ...(transactionalId === undefined ? {} : { transactionalId }),
    ...(sasl === undefined ? {} : { sasl }),
    ...(tls === false ? {} : { tls: tls === true ? {} : tls }),
  }

  /** Topics that were there once. A broker that has just begun does not know of all of them yet. */
  const known = new Set<string>()

  const judgedTopic = (session: KafkaSession, topic: string, error: unknown): Error => {
    const failure = topicFailure(topic, error)
    if (failure === null) throw outageOf(error)
    return known.has(topic) && session.ageMs < BEGINNING_MS
      ? new OutageError(`topic ${topic} was there, and is not known to the broker yet`, { cause: error })
      : failure
  }

  /** How many partitions each topic has, or why it cannot be sent to. */
  const askTopics = async (
    session: KafkaSession,
    deliveries: readonly OutgoingDelivery[],
  ): Promise<ReadonlyMap<string, number | Error>> => {
    const found = new Map<string, number | Error>()
    // Each by itself: for an unknown one the client says nothing of the others.
    const ask = async (topic: string): Promise<void> => {
      if (!isTopicName(topic)) {
        found.set(topic, new PermanentError(`"${topic.slice(0, 250)}" is no name that a topic can have`))
        return
      }
      try {
        const { topics } = await session.producer.metadata({ topics: [topic] })
        const count = topics.get(topic)?.partitionsCount
        found.set(topic, count ?? new Error(`nothing is known of topic ${topic}`))
        if (known.size < MAX_KNOWN) known.add(topic)
      } catch (error) {
        found.set(topic, judgedTopic(session, topic, error))
      }
    }
    await Promise.all(Array.from(new Set(deliveries.map(({ topic }) => topic)), ask))
    return found
  }

  const parcelOf = (
    session: KafkaSession,
    delivery: OutgoingDelivery,
    topics: Awaited<ReturnType<typeof askTopics>>,
  ): Parcel | Error => {
    const { event, topic } = delivery
    const count = topics.get(topic)
    if (typeof count !== 'number') return count as Error
    const message = messageOf(delivery)
    const key = event.key === null ? undefined : Buffer.from(event.key)
    const [value, headers] = [asBuffer(message.body), headersOf(message)]
    const bytes = bytesOf(key, value, headers)
    if (bytes > maxMessageBytes)
      return new PermanentError(`it has ${bytes} bytes, more than the ${maxMessageBytes} of maxMessageBytes`)
    const partition = session.partitionFor(topic, key, count)
    return { message: { topic, partition, key, value, headers }, key: event.key, bytes }
  }

  const prepare = async (
    session: KafkaSession,
    deliveries: readonly OutgoingDelivery[],
  ): Promise<Shipment> => {
    const topics = await askTopics(session, deliveries)
    const parcels = deliveries.map((delivery) => {
      try {
        return parcelOf(session, delivery, topics)
      } catch (error) {
        return error instanceof Error ? error : new Error(String(error))
      }
    })
    return new Shipment(
      parcels.map((parcel) => (parcel instanceof Error ? null : parcel)),
      parcels.map((parcel) => (parcel instanceof Error ? failed(parcel) : null)),
      deliveries.map(({ event }) => event.key),
      maxMessageBytes,
    )
  }

  /** All of it or nothing; without the ones that are refused, as often as there are such. */
  const transact = async (session: KafkaSession, shipment: Shipment, signal: AbortSignal): Promise<void> => {
    while (shipment.results.includes(null)) {
      try {
        const transaction = await session.producer.beginTransaction()
        if (await shipment.runWhole(transaction, signal)) {
          await transaction.commit()
          return
        }
        // The first act of the next producer ends what this one leaves open.
        session.renew()
        if (shipment.outage !== null) return shipment.fail(shipment.outage)
        shipment.takeBack()
      } catch (error) {
        session.renew()
        return shipment.fail(outageOf(error))
      }
    }
  }

  /** Those that waited together are sent together; each gets its own part of what became of them. */
  const ship = async (
    session: KafkaSession,
    together: readonly Waiting[],
  ): Promise<readonly (readonly SendResult[])[]> => {
    const signal = AbortSignal.any(together.map(({ context }) => context.signal))
    signal.throwIfAborted()
    const shipment = await prepare(
      session,
      together.flatMap(({ deliveries }) => deliveries),
    )
    if (transactionalId === undefined) await shipment.run(session, signal)
    else await transact(session, shipment, signal)
    let from = 0
    const parts = together.map(({ deliveries, context }) => {
      const part = shipment.results.slice(from, from + deliveries.length)
      from += deliveries.length
      if (shipment.lost) for (const [at, result] of part.entries()) context.answered[at] = result ?? undefined
      return part as SendResult[]
    })
    if (shipment.lost) session.lose()
    return parts
  }

  return brokerPublisher<KafkaSession>({
    name: 'Kafka',
    maxBatch: 1_000,
    orderedPrefix: true,
    open: async (broken) =>
      new Session(await loadPeer<KafkaModule>('@platformatic/kafka'), settings, ship, broken),
    end: (session) => session.end(),
    send: (session, deliveries, context) => session.inTurn({ deliveries, context }),
  })
}
