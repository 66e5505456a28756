/**
 * Sends messages and waits for the confirmation of each. The broker closes a channel for a message that it refuses, and
 * does not say which one it was: then those without an answer are sent again in halves, until it is alone.
 */
import { OutageError, PermanentError, RetryAfter } from '../../core/errors.ts'
import type { SendResult } from '../../core/spi/index.ts'
import { failed, SENT } from '../shared/results.ts'
import type { Channel, Link, Returned } from './link.ts'

export interface Parcel {
  readonly exchange: string
  readonly routingKey: string
  readonly body: Buffer
  readonly properties: { readonly messageId: string } & Readonly<Record<string, unknown>>
  /** Hears what the broker says of it at once, while others are still waited for. */
  readonly onAnswer: (result: SendResult) => void
}

const ACCESS_REFUSED = 403
const NOT_FOUND = 404
const NACK_DELAY_MS = 5_000
/** A broker's limit is not told to anybody; the smallest one that makes sense is larger than this. */
const LARGE_BYTES = 256 * 1_024

interface Round {
  /** Null for those that the broker said nothing about. */
  readonly results: readonly (SendResult | null)[]
  /** What the channel was closed for, or null. */
  readonly closedFor: Error | null
}

const notRouted = ({ fields: { replyCode, replyText } }: Returned, { exchange, routingKey }: Parcel): Error =>
  new Error(
    `no queue takes it: exchange "${exchange}", routing key "${routingKey}" (${replyCode} ${replyText})`,
  )

/** A queue that is full, or a broker in trouble: nothing that the event could help. */
const notTaken = (): RetryAfter =>
  new RetryAfter(NACK_DELAY_MS, {
    message: 'RabbitMQ did not take responsibility for it (nack): its queue may be full',
    counted: false,
  })

/** Nothing was written: all headers together are too long, or the client has begun to close the connection. */
const notWritten = (error: unknown): Error => {
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  return name === 'IllegalOperationError'
    ? new OutageError(`RabbitMQ could not be asked: ${message}`, { cause: error })
    : new PermanentError(`it is no message of AMQP: ${message}`, { cause: error })
}

/** Resolves with null when the channel is closed before there is an answer. */
const confirmation = (
  channel: Channel,
  parcel: Parcel,
  written: (room: boolean) => void,
): Promise<SendResult | null> =>
  new Promise((resolve) => {
    const { exchange, routingKey, body, properties, onAnswer } = parcel
    let isOver = false
    /** The first answer counts: what is said of a message that was not written is meant for another one. */
    const end = (result: SendResult | null): void => {
      if (isOver) return
      isOver = true
      if (result !== null) onAnswer(result)
      resolve(result)
    }
    const answer = (error: Error | null): void => {
      // A message comes back before it is confirmed.
      const returned = channel.returned.get(properties.messageId)
      if (channel.closedFor !== null) end(null)
      else if (error !== null) end(failed(notTaken()))
      else end(returned === undefined ? SENT : failed(notRouted(returned, parcel)))
    }
    try {
      written(channel.publish(exchange, routingKey, body, properties, answer))
    } catch (error) {
      end(failed(notWritten(error)))
    }
  })

const sendRound = (link: Link, parcels: readonly Parcel[]): Promise<Round> =>
  link.withChannel(async (channel) => {
    const answers: Promise<SendResult | null>[] = []
    for (const parcel of parcels) {
      if (!channel.isUsable) break
      let hasRoom = true
      answers.push(confirmation(channel, parcel, (room) => (hasRoom = room)))
      if (!hasRoom) await channel.drained()
    }
    const answered = await Promise.all(answers)
    return { results: parcels.map((_, at) => answered[at] ?? null), closedFor: channel.closedFor }
  })

/** Where an exchange is missing or closed to us, everything for it fares alike. */
const concernsExchangeOf = (closedFor: Error | null, { exchange }: Parcel): boolean => {
  const { code, message = '' } = (closedFor ?? {}) as { readonly code?: unknown; readonly message?: string }
  if (code === NOT_FOUND) return message.includes(`no exchange '${exchange}' `)
  return code === ACCESS_REFUSED && message.includes(`access to exchange '${exchange || 'amq.default'}' `)
}

const halves = <T>(list: readonly T[]): T[][] => {
  const half = Math.ceil(list.length / 2)
  return [list.slice(0, half), list.slice(half)].filter((part) => part.length > 0)
}

const publishParts = async (
  link: Link,
  parcels: readonly Parcel[],
  parts: readonly (readonly number[])[],
  results: (SendResult | null)[],
): Promise<void> => {
  for (const part of parts) {
    const again = await publishTogether(
      link,
      part.map((at) => parcels[at] as Parcel),
    )
    for (const [n, at] of part.entries()) results[at] = again[n] as SendResult
  }
}

const publishTogether = async (link: Link, parcels: readonly Parcel[]): Promise<SendResult[]> => {
  const { results, closedFor } = await sendRound(link, parcels)
  const all = results.map((result, at) => {
    const isCharged = parcels.length === 1 || concernsExchangeOf(closedFor, parcels[at] as Parcel)
    return result ?? (isCharged ? failed(closedFor) : null)
  })
  const open = all.flatMap((result, at) => (result === null ? [at] : []))
  // One that could not be written is known already, and those behind it were not sent.
  const parts = closedFor === null && open.length > 0 ? [open] : halves(open)
  await publishParts(link, parcels, parts, all)
  return all as SendResult[]
}

export const publishAll = async (link: Link, parcels: readonly Parcel[]): Promise<SendResult[]> => {
  const results: (SendResult | null)[] = parcels.map(() => null)
  // The ones that the broker may find too large travel alone: for those beside them it would mean to be sent twice.
  const isLarge = (at: number): boolean => (parcels[at] as Parcel).body.byteLength >= LARGE_BYTES
  const all = [...parcels.keys()]
  const parts = [all.filter((at) => !isLarge(at)), ...all.filter(isLarge).map((at) => [at])]
  await publishParts(
    link,
    parcels,
    parts.filter((part) => part.length > 0),
    results,
  )
  return results as SendResult[]
}
