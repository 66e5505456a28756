/** `posthaste/publishers/mqtt`: a message of MQTT 5 per event. Headers are user properties. */
import { OutageError, PermanentError } from '../core/errors.ts'
import type { OutgoingDelivery, Publisher } from '../core/spi/index.ts'
import { brokerPublisher } from './shared/broker.ts'
import { checkOptions } from './shared/check-options.ts'
import { type FormatOptions, messages } from './shared/message.ts'
import { loadPeer } from './shared/peer.ts'
import { sendEach } from './shared/results.ts'

export interface MqttPublisherOptions extends FormatOptions {
  /** `mqtt://user:password@host:port`, or `mqtts://…`. */
  readonly url: string
  /** 1 (default): at least once. 2: once, as far as the broker is concerned. */
  readonly qos?: 1 | 2
  /** The broker keeps the last one of each topic for those who come later. Default false. */
  readonly retain?: boolean
  /** How the broker knows us; no two processes may share it. Default made up by the client. */
  readonly clientId?: string
  /** How long connecting may take, in ms. Default 5,000; 1 to 60,000. */
  readonly connectTimeoutMs?: number
}

/** What of MQTT.js is used. */
interface Client {
  on(event: 'error' | 'close', listener: (error?: unknown) => void): unknown
  once(event: 'connect', listener: (answer: Connack) => void): unknown
  publishAsync(topic: string, payload: string | Buffer, options: object): Promise<unknown>
  end(force: boolean): unknown
}

interface Connack {
  readonly properties?: { readonly maximumPacketSize?: number; readonly receiveMaximum?: number }
}

interface MqttModule {
  connect(url: string, options: object): Client
}

interface Open {
  readonly client: Client
  /** Larger packets would end the connection for everybody. */
  readonly maxPacketBytes: number
  readonly room: Room
}

/** What the broker takes before it has answered is counted, and one more would end the connection for everybody. */
class Room {
  #left: number
  readonly #waiting: (() => void)[] = []

  constructor(places: number) {
    this.#left = places
  }

  /** Those who wait get a place in the order in which they came. */
  async within<T>(work: () => Promise<T>): Promise<T> {
    if (this.#left > 0) this.#left -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#left += 1
      else next()
    }
  }
}

/** Of MQTT, where the broker says nothing else. */
const RECEIVE_MAXIMUM = 65_535

/** Codes with which the broker refuses this message rather than the connection: a right to its topic is missing (0x87) … */
const ABOUT_THE_MESSAGE = new Set([0x80, 0x83, 0x87, 0x90, 0x95, 0x97, 0x99])
const TOO_LARGE = 0x95

interface MqttError extends Error {
  readonly code?: unknown
}

const judged = (error: unknown): unknown => {
  const { code, message } = error as MqttError
  if (code === TOO_LARGE) return new PermanentError(`the broker refuses it: ${message}`, { cause: error })
  if (typeof code === 'number' && ABOUT_THE_MESSAGE.has(code)) return error
  return new OutageError(`MQTT's broker could not be asked: ${message}`, { cause: error })
}

const topicOf = ({ topic }: OutgoingDelivery): string => {
  if (topic === '' || /[+#\0]/.test(topic))
    throw new PermanentError(`"${topic}" is no topic of MQTT: +, # and NUL have no place in it`)
  return topic
}

export const mqttPublisher = (options: MqttPublisherOptions): Publisher => {
  checkOptions('mqttPublisher', options, {
    url: { kind: 'text' },
    qos: { kind: 'number', from: 1, to: 2, optional: true },
    retain: { kind: 'flag', optional: true },
    clientId: { kind: 'text', optional: true },
    connectTimeoutMs: { kind: 'number', from: 1, to: 60_000, optional: true },
    format: { kind: 'choice', of: ['plain', 'cloudevents', 'cloudevents-binary'], optional: true },
    source: { kind: 'text', optional: true },
  })
  const { url, qos = 1, retain = false, clientId, connectTimeoutMs = 5_000 } = options
  const messageOf = messages(options, '')

  const publish = async (
    { client, maxPacketBytes, room }: Open,
    delivery: OutgoingDelivery,
  ): Promise<void> => {
    const topic = topicOf(delivery)
    const { body, contentType, headers } = messageOf(delivery)
    if (packetBytes(topic, contentType, headers, body) > maxPacketBytes)
      throw new PermanentError(`it is larger than the ${maxPacketBytes} bytes that the broker takes`)
    const payload =
      typeof body === 'string' ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength)
    // An empty list of them makes a packet that brokers refuse.
    const userProperties = headers.size === 0 ? {} : { userProperties: Object.fromEntries(headers) }
    const properties = { contentType, ...userProperties }
    try {
      await room.within(() => client.publishAsync(topic, payload, { qos, retain, properties }))
    } catch (error) {
      throw judged(error)
    }
  }

  return brokerPublisher<Open>({
    name: 'the broker of MQTT',
    maxBatch: 500,
    async open(broken) {
      const { connect } = await loadPeer<MqttModule>('mqtt')
      return await new Promise<Open>((resolve, reject) => {
        const client = connect(url, {
          protocolVersion: 5,
          reconnectPeriod: 0,
          connectTimeout: connectTimeoutMs,
          ...(clientId === undefined ? {} : { clientId }),
        })
        client.on('error', (error) => {
          reject(error as Error)
          broken()
        })
        client.on('close', () => {
          reject(new Error('the connection was closed'))
          broken()
        })
        client.once('connect', ({ properties: { maximumPacketSize, receiveMaximum } = {} }) =>
          resolve({
            client,
            maxPacketBytes: maximumPacketSize ?? Number.POSITIVE_INFINITY,
            room: new Room(receiveMaximum ?? RECEIVE_MAXIMUM),
          }),
        )
      })
    },
    end: ({ client }) => void client.end(true),
    send: (open, deliveries, { answered }) =>
      sendEach(deliveries, (delivery) => publish(open, delivery), answered),
  })
}

/** Lengths, kinds and numbers that are in a packet beside its texts. */
const PACKET_OVERHEAD = 64
const PROPERTY_OVERHEAD = 5

const packetBytes = (
  topic: string,
  contentType: string,
  headers: ReadonlyMap<string, string>,
  body: string | Uint8Array,
): number => {
  let bytes = PACKET_OVERHEAD + Buffer.byteLength(topic) + contentType.length + Buffer.byteLength(body)
  for (const [name, value] of headers) bytes += PROPERTY_OVERHEAD + name.length + Buffer.byteLength(value)
  return bytes
}
