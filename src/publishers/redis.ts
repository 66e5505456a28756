/**
 * `posthaste/publishers/redis`: an entry of a Redis stream per event. The stream is the delivery's topic; headers are
 * fields, the payload is the field `data`. Commands of a batch travel together.
 *
 * Streams are not trimmed here: who reads them knows what may go.
 */
import { isOutageError, OutageError } from '../core/errors.ts'
import type { OutgoingDelivery, Publisher } from '../core/spi/index.ts'
import { brokerPublisher } from './shared/broker.ts'
import { checkOptions } from './shared/check-options.ts'
import { type FormatOptions, type Message, messages } from './shared/message.ts'
import { loadPeer } from './shared/peer.ts'
import { failed, sendEach } from './shared/results.ts'
import { Silence } from './shared/silence.ts'

export interface RedisPublisherOptions extends FormatOptions {
  /** `redis://user:password@host:port/0`, or `rediss://…`. */
  readonly url: string
  /** Before the topic, to make the name of the stream. Default none. */
  readonly prefix?: string
  /** Replicas that must have it before it counts as sent (`WAIT`). Default 0, up to 100. */
  readonly waitForReplicas?: number
  /** How long they may take, in ms. Default 1,000; 1 to 60,000. */
  readonly waitMs?: number
  /** How long nothing may be heard while answers are waited for, in ms. Default 10,000; 1 to 60,000. */
  readonly answerTimeoutMs?: number
  /** How long connecting may take, in ms. Default 5,000; 1 to 60,000. */
  readonly connectTimeoutMs?: number
}

type Argument = string | Buffer

/** What of node-redis is used. */
interface Client {
  connect(): Promise<unknown>
  destroy(): void
  on(event: 'error' | 'end', listener: (error?: unknown) => void): unknown
  sendCommand(args: readonly Argument[]): Promise<unknown>
}

interface Open {
  readonly client: Client
  readonly silence: Silence
}

interface RedisModule {
  createClient(options: object): Client
}

/** The first word of an answer that is about the server, not about what was sent. */
const OUTAGES = new Set([
  'OOM',
  'READONLY',
  'LOADING',
  'MISCONF',
  'BUSY',
  'NOAUTH',
  'WRONGPASS',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'NOREPLICAS',
  'TRYAGAIN',
  'UNBLOCKED',
])

/** Answers begin with a word in capitals; whatever else goes wrong is about the connection. */
const isAnswer = (error: unknown): error is Error =>
  error instanceof Error && /^[A-Z][A-Z0-9]+(?: |$)/.test(error.message)

/** A right is missing: to this stream, which is about the entry, or to add anything at all, which is not. */
const isClosedToUs = (message: string): boolean => /^NOPERM .*permissions to access/i.test(message)

const isOutage = (message: string): boolean => {
  const word = message.split(' ', 1)[0] ?? ''
  return word === 'NOPERM' ? !isClosedToUs(message) : OUTAGES.has(word)
}

const judged = (error: unknown): unknown => {
  if (isAnswer(error) && !isOutage(error.message)) return error
  const why = error instanceof Error ? error.message : String(error)
  return new OutageError(`Redis could not be asked: ${why}`, { cause: error })
}

const asBuffer = (body: string | Uint8Array): Argument =>
  typeof body === 'string' ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength)

const entryOf = (stream: string, { headers, contentType, body }: Message): Argument[] => {
  const args: Argument[] = ['XADD', stream, '*', 'content-type', contentType]
  // A header of that name could pass for the payload.
  for (const [name, value] of headers) if (name.toLowerCase() !== 'data') args.push(name, value)
  args.push('data', asBuffer(body))
  return args
}

export const redisPublisher = (options: RedisPublisherOptions): Publisher => {
  checkOptions('redisPublisher', options, {
    url: { kind: 'text' },
    prefix: { kind: 'text', optional: true },
    waitForReplicas: { kind: 'number', from: 0, to: 100, optional: true },
    waitMs: { kind: 'number', from: 1, to: 60_000, optional: true },
    answerTimeoutMs: { kind: 'number', from: 1, to: 60_000, optional: true },
    connectTimeoutMs: { kind: 'number', from: 1, to: 60_000, optional: true },
    format: { kind: 'choice', of: ['plain', 'cloudevents', 'cloudevents-binary'], optional: true },
    source: { kind: 'text', optional: true },
  })
  const { url, prefix = '', waitForReplicas = 0, waitMs = 1_000 } = options
  const { answerTimeoutMs = 10_000, connectTimeoutMs = 5_000 } = options
  const messageOf = messages(options, 'ce-')

  // WAIT keeps the connection as long as it takes, and what others send over it waits behind.
  const limitMs = answerTimeoutMs + (waitForReplicas > 0 ? waitMs : 0)
  const silent = (): OutageError => new OutageError(`Redis said nothing for ${limitMs} ms`)

  const wait = async ({ client, silence }: Open): Promise<void> => {
    const answer = await silence.limit(limitMs, () =>
      client.sendCommand(['WAIT', String(waitForReplicas), String(waitMs)]).finally(() => silence.broken()),
    )
    if (answer === null) throw silent()
    const reached = Number(answer)
    if (reached < waitForReplicas)
      throw new OutageError(`${reached} of ${waitForReplicas} replicas had it within ${waitMs} ms`)
  }

  return brokerPublisher<Open>({
    name: 'Redis',
    maxBatch: 1_000,
    async open(broken) {
      const { createClient } = await loadPeer<RedisModule>('redis')
      const socket = { connectTimeout: connectTimeoutMs, reconnectStrategy: false }
      const client = createClient({ url, socket, disableOfflineQueue: true })
      client.on('error', broken)
      client.on('end', broken)
      // The client's own limit ends when there is a connection, whether or not anybody speaks there.
      const enough = setTimeout(() => client.destroy(), connectTimeoutMs)
      try {
        await client.connect()
      } finally {
        clearTimeout(enough)
      }
      return { client, silence: new Silence() }
    },
    end: ({ client }) => client.destroy(),
    async send(open, deliveries, { answered, leave }) {
      const { client, silence } = open
      const add = async (delivery: OutgoingDelivery): Promise<void> => {
        const entry = entryOf(`${prefix}${delivery.topic}`, messageOf(delivery))
        try {
          await client.sendCommand(entry)
        } catch (error) {
          const reason = judged(error)
          // After a failover the address may lead to another server, and this one keeps the connection.
          if (isOutageError(reason)) leave()
          throw reason
        }
      }
      const addHeard = (delivery: OutgoingDelivery): Promise<void> =>
        add(delivery).finally(() => silence.broken())
      const results = await silence.limit(limitMs, () =>
        sendEach(deliveries, addHeard, waitForReplicas > 0 ? [] : answered),
      )
      if (results === null) {
        if (waitForReplicas > 0) throw silent()
        leave()
        return deliveries.map((_, at) => answered[at] ?? failed(silent()))
      }
      if (waitForReplicas > 0) await wait(open)
      return results
    },
  })
}
