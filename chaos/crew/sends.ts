/**
 * The way of a worker to a real broker: the real publisher, and every message says who sent it, as what, and whether it counts.
 * A broker takes everything; so what an event wants refused is stored too, marked as refused, and then fails here. It must not
 * fail before: whoever is refused has reached the broker, and the breaker is told so.
 */
import { PermanentError, type Publisher, RetryAfter } from '../../src/index.ts'
import type { Fate, SinkAnswer } from '../logs.ts'

type Delivery = Parameters<Publisher['send']>[0][number]
type Result = Awaited<ReturnType<Publisher['send']>>[number]

export const SEND_HEADER = 'chaos-send'

interface Send {
  readonly boot: string
  readonly run: number
  readonly attempt: number
  readonly answer: SinkAnswer
}

/** The number tells the sends of a boot apart. */
const writeSend = ({ boot, run, attempt, answer }: Send, number: number): string =>
  [boot, run, attempt, answer, number].join('/')

export const readSend = (text: string): Send | null => {
  const [boot, run, attempt, answer] = text.split('/')
  return boot ? { boot, run: Number(run), attempt: Number(attempt), answer: answer as SinkAnswer } : null
}

const behind = (): Result => ({
  ok: false,
  error: new RetryAfter(0, { message: 'one before it in its key was refused', counted: false }),
})

const answerOf = ({ event, attempt }: Delivery): SinkAnswer => {
  const { failures, fate } = JSON.parse(event.data as string) as { failures: number; fate: Fate }
  if (fate === 'refused') return 'dead'
  return attempt <= failures ? 'retry' : 'ok'
}

const resultOf = (answer: SinkAnswer): Result => {
  if (answer === 'ok') return { ok: true }
  return {
    ok: false,
    error: answer === 'dead' ? new PermanentError('refused for good') : new Error('not now'),
  }
}

/** Null for what is behind a refused one in its key, where several of a key share a batch: it is not sent. */
const answersOf = (deliveries: readonly Delivery[]): (SinkAnswer | null)[] => {
  const broken = new Set<string>()
  return deliveries.map((delivery) => {
    const { key } = delivery.event
    if (key !== null && broken.has(key)) return null
    const answer = answerOf(delivery)
    if (key !== null && answer !== 'ok') broken.add(key)
    return answer
  })
}

export const sendsOf = (publisher: Publisher, boot: string): Publisher => {
  let count = 0
  const marked = (delivery: Delivery, answer: SinkAnswer): Delivery => {
    const { event, run, attempt, deduplicationId } = delivery
    count += 1
    const mark = writeSend({ boot, run, attempt, answer }, count)
    const headers = { ...event.headers, [SEND_HEADER]: mark }
    // A broker that recognises duplicates must not take what counts for what was refused.
    const ownId = answer === 'ok' ? deduplicationId : `${deduplicationId}/${mark}`
    return { ...delivery, deduplicationId: ownId, event: { ...event, headers } }
  }
  return {
    maxBatch: publisher.maxBatch ?? 1,
    orderedPrefix: publisher.orderedPrefix ?? false,
    async send(deliveries, context) {
      const answers = answersOf(deliveries)
      const wanted = deliveries.flatMap((delivery, at) => {
        const answer = answers[at] ?? null
        return answer === null ? [] : [marked(delivery, answer)]
      })
      const sent = (await publisher.send(wanted, context)).values()
      return answers.map((answer) => {
        if (answer === null) return behind()
        const result = sent.next().value as Result
        return result.ok ? resultOf(answer) : result
      })
    },
    close: async () => await publisher.close?.(),
  }
}
