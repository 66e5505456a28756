/**
 * The brokers: what Posthaste sends to each of them, and the same messages by the client library alone, as somebody
 * would do it who knows it well: connected before, as many under way as Posthaste has, acknowledged alike.
 */
import { randomBytes } from 'node:crypto'
import type { Publisher } from '../../src/index.ts'
import type { Message } from '../../src/publishers/shared/message.ts'

export interface RawMessage extends Message {
  readonly id: string
  readonly key: string
}

export interface Raw {
  send(messages: readonly RawMessage[]): Promise<void>
  close(): Promise<unknown>
}

/** An empty place at the broker, for one run. */
export interface Place {
  readonly topic: string
  publisher(): Publisher
  raw(): Promise<Raw>
  remove(): Promise<void>
}

export interface Carrier {
  readonly name: string
  /** The package of the client. */
  readonly client: string
  open(url: string): Promise<Place>
}

export interface Measured {
  readonly perSecond: number
  /** Processor time of this process per event, in microseconds. */
  readonly cpuMicros: number
}

export const measured = async (events: number, work: () => Promise<unknown>): Promise<Measured> => {
  const [startedAt, before] = [performance.now(), process.cpuUsage()]
  await work()
  const { user, system } = process.cpuUsage(before)
  return {
    perSecond: (events * 1_000) / (performance.now() - startedAt),
    cpuMicros: (user + system) / events,
  }
}

/** As many as in four batches of 500. */
export const WINDOW = 2_000
export const KAFKA_BATCH = 1_000

export const newName = (): string => `bench_${randomBytes(6).toString('hex')}`

/** So many under way at any time, or as many as the broker says. */
export const windowed = async (
  messages: readonly RawMessage[],
  sendOne: (message: RawMessage) => Promise<unknown>,
  most = WINDOW,
): Promise<void> => {
  let next = 0
  const one = async (): Promise<void> => {
    while (next < messages.length) {
      next += 1
      await sendOne(messages[next - 1] as RawMessage)
    }
  }
  await Promise.all(Array.from({ length: Math.min(most, WINDOW) }, one))
}
