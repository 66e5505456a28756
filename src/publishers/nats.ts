/**
 * `posthaste/publishers/nats`: a message of NATS JetStream per event, acknowledged by the stream that has its subject. The
 * stream recognises what comes twice by `Nats-Msg-Id`, within its window for duplicates.
 */
import { InvalidOptionError, isOutageError, OutageError, PermanentError } from '../core/errors.ts'
import type { OutgoingDelivery, Publisher } from '../core/spi/index.ts'
import { brokerPublisher } from './shared/broker.ts'
import { checkOptions } from './shared/check-options.ts'
import { asciiValue, type FormatOptions, messages } from './shared/message.ts'
import { loadPeer } from './shared/peer.ts'
import { sendEach } from './shared/results.ts'
import { endingSockets } from './shared/sockets.ts'

export interface NatsPublisherOptions extends FormatOptions {
  /** `nats://user:password@host:port`, one or several of a cluster. */
  readonly servers: string | readonly string[]
  /** More of what the client's `connect` takes, such as a token or TLS. */
  readonly connection?: Readonly<Record<string, unknown>>
  /** How long an acknowledgement may take, in ms. Default 5,000; 1 to 300,000. */
  readonly ackTimeoutMs?: number
  /** How long connecting may take, in ms. Default 5,000; 1 to 60,000. */
  readonly connectTimeoutMs?: number
}

interface Headers {
  set(name: string, value: string): void
}

/** What of the client is used. */
interface Connection {
  readonly info?: { readonly max_payload?: number; readonly jetstream?: boolean; readonly server_id?: string }
  closed(): Promise<unknown>
  close(): Promise<void>
}

interface PublishAnswer {
  readonly stream?: unknown
  readonly seq?: unknown
}

interface JetStream {
  publish(subject: string, body: string | Uint8Array, options: object): Promise<PublishAnswer>
}

interface NatsModule {
  connect(options: object): Promise<Connection>
  headers(): Headers
}

interface JetStreamModule {
  jetstream(connection: Connection, options: object): JetStream
}

interface Open {
  readonly connection: Connection
  readonly stream: JetStream
  newHeaders(): Headers
}

/** Of a stream's answer: there is too much of it, or it is full, or JetStream is in trouble. */
const OUTAGE_STATUSES: ReadonlySet<unknown> = new Set([429, 503])

/** Others of that kind, as the server's errors.json has them: limits of the account, memory, storage; no limits at all. */
const OUTAGE_CODES: ReadonlySet<unknown> = new Set([10_002, 10_028, 10_047, 10_120])

interface NatsError extends Error {
  readonly code?: unknown
  readonly status?: unknown
  readonly operation?: unknown
}

/** The right to publish at one subject is missing. Without the one to hear of answers, nothing can be sent at all. */
const isClosedToUs = (error: unknown): boolean => {
  const { name, operation, cause } = error as NatsError
  if (name === 'PermissionViolationError') return operation === 'publish'
  return cause instanceof Error && isClosedToUs(cause)
}

/** A subject that no stream has, or that does not look like one; and what a stream says of this message. */
const isAboutTheMessage = (error: unknown): boolean => {
  const { name, message, status, code } = error as NatsError
  if (/JetStreamApiError/.test(name)) return !OUTAGE_STATUSES.has(status) && !OUTAGE_CODES.has(code)
  if (isClosedToUs(error)) return true
  // Somebody else's answer, which is no JSON.
  if (error instanceof SyntaxError) return true
  return isSilence(error) || /InvalidSubject|invalid ack response/i.test(`${name} ${message}`)
}

/** The client takes silence at a subject for a server without JetStream; whether it has it, the server itself says. */
const isSilence = (error: unknown): boolean =>
  /NoResponders|JetStreamNotEnabled/i.test(`${(error as Error).name} ${(error as Error).message}`)

const judged = (error: unknown): unknown => {
  if (isAboutTheMessage(error)) return error
  return new OutageError(`NATS could not be asked: ${(error as Error).message}`, { cause: error })
}

/** Anybody who listens at a subject can answer; the client takes what is not said for a success. */
const isOfStream = ({ stream, seq }: PublishAnswer): boolean =>
  typeof stream === 'string' && stream !== '' && typeof seq === 'number' && seq > 0

const notOfStream = (subject: string): Error =>
  new Error(`whoever answers at "${subject}" is no stream, so nobody keeps it`)

const sizeOf = (body: string | Uint8Array): number => Buffer.byteLength(body)

/** The server takes them for orders: `Nats-Rollup` removes what is in the stream. */
const isOrder = (header: string): boolean => /^nats-/i.test(header)

const subjectOf = ({ topic }: OutgoingDelivery): string => {
  if (/(?:^|\.)(?:\*|>)(?:\.|$)|\0/.test(topic))
    throw new PermanentError(
      `"${topic}" is no subject to publish at: * and > stand for many, and NUL has no place in it`,
    )
  if (/^(?:\$(?!KV\.|O\.)|_INBOX\.)/.test(topic))
    throw new PermanentError(
      `"${topic}" is a subject of the server: what is sent there is an order or an answer`,
    )
  return topic
}

const serversOf = ({ servers }: NatsPublisherOptions): string[] => {
  const list: unknown = typeof servers === 'string' ? [servers] : servers
  const isList = Array.isArray(list) && list.length > 0
  if (isList && list.every((each) => typeof each === 'string' && /^\S+$/.test(each))) return [...list]
  throw new InvalidOptionError('natsPublisher: servers must be nats://host:port, or a list of them', {
    option: 'servers',
    value: servers,
  })
}

export const natsPublisher = (options: NatsPublisherOptions): Publisher => {
  checkOptions('natsPublisher', options, {
    servers: { kind: 'anything' },
    connection: { kind: 'object', optional: true },
    ackTimeoutMs: { kind: 'number', from: 1, to: 300_000, optional: true },
    connectTimeoutMs: { kind: 'number', from: 1, to: 60_000, optional: true },
    format: { kind: 'choice', of: ['plain', 'cloudevents', 'cloudevents-binary'], optional: true },
    source: { kind: 'text', optional: true },
  })
  const { connection: given = {}, ackTimeoutMs = 5_000, connectTimeoutMs = 5_000 } = options
  const servers = serversOf(options)
  const messageOf = messages(options, 'ce-')
  /** Servers through which a stream has answered: one without JetStream can lead to others that have it, as a leaf does. */
  const leadToStreams = new Set<string | undefined>()

  const publish = async (
    { connection, stream, newHeaders }: Open,
    delivery: OutgoingDelivery,
    leave: () => void,
  ) => {
    const subject = subjectOf(delivery)
    const message = messageOf(delivery)
    const headers = newHeaders()
    headers.set('content-type', message.contentType)
    let size = 0
    for (const [name, value] of message.headers) {
      if (isOrder(name)) continue
      const ascii = asciiValue(value)
      headers.set(name, ascii)
      size += name.length + ascii.length + 4
    }
    const most = connection.info?.max_payload ?? Number.POSITIVE_INFINITY
    // The server would close the connection for everybody.
    if (size + sizeOf(message.body) + HEADER_OVERHEAD > most)
      throw new PermanentError(`it is larger than the ${most} bytes that the server takes`)
    let answer: PublishAnswer
    try {
      answer = await stream.publish(subject, message.body, {
        msgID: delivery.deduplicationId,
        headers,
        timeout: ackTimeoutMs,
        retries: 0,
      })
    } catch (error) {
      const hasStreams = connection.info?.jetstream === true || leadToStreams.has(connection.info?.server_id)
      const reason = judged(error)
      const isAboutTheServer = isSilence(error) && !hasStreams
      // The connection may be dead without a word, for which its own heartbeats take minutes; or another of the servers
      // is the one to ask.
      if (isOutageError(reason) || isAboutTheServer) leave()
      if (!isAboutTheServer) throw reason
      throw new OutageError(
        `the server has no JetStream, or no stream has the subject "${subject}" where it leads to one`,
        { cause: error },
      )
    }
    if (!isOfStream(answer)) throw notOfStream(subject)
    // A server that was started again has another id.
    if (leadToStreams.size > 100) leadToStreams.clear()
    leadToStreams.add(connection.info?.server_id)
  }

  return brokerPublisher<Open>({
    name: 'NATS',
    maxBatch: 500,
    async open(broken) {
      const { connect, headers } = await loadPeer<NatsModule>('@nats-io/transport-node')
      const { jetstream } = await loadPeer<JetStreamModule>('@nats-io/jetstream')
      const settings = {
        ...given,
        servers,
        reconnect: false,
        timeout: connectTimeoutMs,
        ...credentialsIn(servers),
      }
      const connection = await endingSockets((signal) => connect({ ...settings, ...tlsOf(given, signal) }))
      void connection.closed().then(broken, broken)
      return { connection, stream: jetstream(connection, { timeout: ackTimeoutMs }), newHeaders: headers }
    },
    end: ({ connection }) => connection.close(),
    send: (open, deliveries, { answered, leave }) =>
      sendEach(deliveries, (delivery) => publish(open, delivery, leave), answered),
  })
}

/** The version's line, the content type and the id, which are headers too. */
const HEADER_OVERHEAD = 512

/** What is given for TLS reaches its sockets, and so does what ends them. */
const tlsOf = ({ tls }: Readonly<Record<string, unknown>>, signal: AbortSignal): object =>
  typeof tls === 'object' && tls !== null ? { tls: { ...tls, signal } } : {}

/** The client takes addresses without them. */
const credentialsIn = ([first = '']: readonly string[]): object => {
  if (!first.includes('@')) return {}
  const { username, password } = new URL(first)
  return { user: decodeURIComponent(username), pass: decodeURIComponent(password) }
}
