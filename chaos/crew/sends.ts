/**
 * The way of a worker to a real broker: the real publisher, with what the sink would do before it. A broker takes everything,
 * so what an event wants refused is refused here; and every message says who sent it, and as what.
 */
import { PermanentError, type Publisher, RetryAfter } from '../../src/index.ts'
import type { Fate } from '../logs.ts'

type Delivery = Parameters<Publisher['send']>[0][number]
type Result = Awaited<ReturnType<Publisher['send']>>[number]

export const SEND_HEADER = 'chaos-send'

/** A worker's boot, the run and the attempt of the delivery, and the number of the send in that boot. */
interface Send {
  readonly boot: string
  readonly run: number
  readonly attempt: number
}

const writeSend = ({ boot, run, attempt }: Send, number: number): string =>
  [boot, run, attempt, number].join('/')

export const readSend = (text: string): Send | null => {
  const [boot, run, attempt] = text.split('/')
  return boot ? { boot, run: Number(run), attempt: Number(attempt) } : null
}

const refused = (error: Error): Result => ({ ok: false, error })

const behind = (): Result =>
  refused(new RetryAfter(0, { message: 'one before it in its key was refused', counted: false }))

const refusalOf = ({ event, attempt }: Delivery): Result | null => {
  const { failures, fate } = JSON.parse(event.data as string) as { failures: number; fate: Fate }
  if (fate === 'refused') return refused(new PermanentError('refused for good'))
  return attempt <= failures ? refused(new Error('not now')) : null
}

/** Where several of a key share a batch, what is behind a refused one is not sent. */
const refusalsOf = (deliveries: readonly Delivery[]): (Result | null)[] => {
  const broken = new Set<string | null>()
  return deliveries.map((delivery) => {
    const { key } = delivery.event
    const refusal = key !== null && broken.has(key) ? behind() : refusalOf(delivery)
    if (refusal !== null) broken.add(key)
    return refusal
  })
}

export const sendsOf = (publisher: Publisher, boot: string): Publisher => {
  let count = 0
  const marked = (delivery: Delivery): Delivery => {
    const { event, run, attempt } = delivery
    count += 1
    const headers = { ...event.headers, [SEND_HEADER]: writeSend({ boot, run, attempt }, count) }
    return { ...delivery, event: { ...event, headers } }
  }
  return {
    maxBatch: publisher.maxBatch ?? 1,
    orderedPrefix: publisher.orderedPrefix ?? false,
    async send(deliveries, context) {
      const refusals = refusalsOf(deliveries)
      const wanted = deliveries.filter((_, at) => refusals[at] === null)
      const sent = wanted.length === 0 ? [] : await publisher.send(wanted.map(marked), context)
      const answers = sent.values()
      const broken = new Set<string | null>()
      return deliveries.map(({ event: { key } }, at) => {
        const refusal = refusals[at] ?? null
        const isBehind = refusal !== null && key !== null && broken.has(key)
        const result = isBehind ? behind() : (refusal ?? (answers.next().value as Result))
        if (!result.ok) broken.add(key)
        return result
      })
    },
    close: async () => await publisher.close?.(),
  }
}
