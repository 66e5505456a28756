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
  /** How the broker knows us. Default made up by the client. */
  readonly clientId?: string
  /** How long connecting may take, in ms. Default 5,000; 1 to 60,000. */
  readonly connectTimeoutMs?: number
}

/** What of MQTT.js is used. */
interface Client {
  on(event: 'error' | 'close', listener: () => void): unknown
  publishAsync(topic: string, payload: string | Buffer, options: object): Promise<unknown>
  end(force: boolean): unknown
}

interface MqttModule {
  connectAsync(url: string, options: object): Promise<Client>
}

/** Codes with which the broker refuses this message rather than the connection. */
const ABOUT_THE_MESSAGE = new Set([0x90, 0x95, 0x97, 0x99])
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

  return brokerPublisher<Client>({
    name: 'the broker of MQTT',
    maxBatch: 500,
    async open(broken) {
      const { connectAsync } = await loadPeer<MqttModule>('mqtt')
      const client = await connectAsync(url, {
        protocolVersion: 5,
        reconnectPeriod: 0,
        connectTimeout: connectTimeoutMs,
        ...(clientId === undefined ? {} : { clientId }),
      })
      client.on('error', broken)
      client.on('close', broken)
      return client
    },
    end: (client) => void client.end(true),
    send: (client, deliveries) =>
      sendEach(deliveries, async (delivery) => {
        const topic = topicOf(delivery)
        const { body, contentType, headers } = messageOf(delivery)
        const payload = typeof body === 'string' ? body : Buffer.from(body)
        const properties = { contentType, userProperties: Object.fromEntries(headers) }
        try {
          await client.publishAsync(topic, payload, { qos, retain, properties })
        } catch (error) {
          throw judged(error)
        }
      }),
  })
}
