/** What a run needs of a real broker: a place in it, a publisher to it, and everything that lies in it, from the beginning. */
import type { Publisher } from '../../src/index.ts'

export type BrokerKind = 'kafka' | 'rabbitmq' | 'redis' | 'nats'

export const BROKER_KINDS: readonly BrokerKind[] = ['kafka', 'rabbitmq', 'redis', 'nats']

export const isBroker = (destination: string): destination is BrokerKind =>
  BROKER_KINDS.some((kind) => kind === destination)

/** The topic, queue, stream or subject of a run. */
export const TOPIC = 'chaos'

/** A silent broker is given up by then, so that a run of a few minutes has something to see. */
export const ANSWER_WITHIN_MS = 3_000

/** A message, as it lies in the broker. */
export interface Arrival {
  /** Where: the same message has the same one at every reading, and no two messages share it. */
  readonly position: string
  /** When the broker took it, by its clock; when it was read, where the broker does not say. */
  readonly at: number
  readonly key: string | null
  readonly headers: Readonly<Record<string, string>>
}

export interface Reading {
  /** What comes next, in order; nothing when everything was read. Rejects when the broker is gone. */
  next(): Promise<readonly Arrival[]>
  close(): Promise<unknown>
}

export interface Kit {
  /** Makes the topic. */
  setUp(url: string): Promise<void>
  publisher(url: string): Publisher
  /** From the beginning. */
  read(url: string): Promise<Reading>
  /** For a broker that tells clients its address: makes it the proxy's. */
  tell?(url: string): (data: Buffer, port: number) => Buffer
}

/** Each with its own client library. */
export const loadKit = async (kind: BrokerKind): Promise<Kit> => {
  if (kind === 'kafka') return (await import('./kafka-kit.ts')).kafkaKit
  if (kind === 'rabbitmq') return (await import('./rabbitmq-kit.ts')).rabbitmqKit
  if (kind === 'redis') return (await import('./redis-kit.ts')).redisKit
  return (await import('./nats-kit.ts')).natsKit
}
