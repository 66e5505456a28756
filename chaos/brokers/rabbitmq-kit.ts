/**
 * RabbitMQ: a durable queue, which is read without acknowledging, so that every reading finds all of it. (A quorum queue
 * would give us no more than 2,000 messages that way.) A message in a queue has no number; its position is what the sender
 * called it, and how often it came in this reading.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type ConsumeMessage, connect } from 'amqplib'
import { rabbitmqPublisher } from '../../src/publishers/rabbitmq/index.ts'
import { SEND_HEADER } from '../crew/sends.ts'
import { ANSWER_WITHIN_MS, type Arrival, type Kit, TOPIC } from './kit.ts'

const WAIT_MS = 20

const open = async (url: string) => {
  const connection = await connect(url, { timeout: ANSWER_WITHIN_MS })
  let lost: Error | null = null
  const lose = (error?: Error): void => {
    lost ??= error ?? new Error('the connection was closed')
  }
  connection.on('error', lose)
  connection.on('close', lose)
  const channel = await connection.createChannel()
  channel.on('error', lose)
  channel.on('close', lose)
  const check = (): void => {
    if (lost !== null) throw lost
  }
  return { connection, channel, check }
}

const arrivalsOf = (): ((message: ConsumeMessage) => Arrival) => {
  const times = new Map<string, number>()
  return ({ properties }) => {
    const headers = properties.headers as Record<string, string>
    const name = headers[SEND_HEADER] ?? String(properties.messageId)
    const time = (times.get(name) ?? 0) + 1
    times.set(name, time)
    return { position: `${name}#${time}`, at: Date.now(), key: headers['event-key'] ?? null, headers }
  }
}

export const rabbitmqKit: Kit = {
  async setUp(url) {
    const { connection, channel } = await open(url)
    await channel.assertQueue(TOPIC, { durable: true })
    await connection.close()
  },
  publisher: (url) => rabbitmqPublisher({ url, connectTimeoutMs: ANSWER_WITHIN_MS }),
  async read(url) {
    const { connection, channel, check } = await open(url)
    const arrivalOf = arrivalsOf()
    let waiting: Arrival[] = []
    await channel.consume(TOPIC, (message) => {
      if (message !== null) waiting.push(arrivalOf(message))
    })
    const isEmpty = async (): Promise<boolean> => (await channel.checkQueue(TOPIC)).messageCount === 0
    return {
      async next() {
        // What it has not sent us yet is in the count; what it has is before the answer.
        while (waiting.length === 0 && !(await isEmpty())) check()
        if (waiting.length === 0) await pause(WAIT_MS)
        check()
        const arrivals = waiting
        waiting = []
        return arrivals
      },
      close: () => connection.close(),
    }
  },
}
