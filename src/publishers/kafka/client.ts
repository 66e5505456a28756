/** What of @platformatic/kafka is used, and what its answers mean. */
import { OutageError, PermanentError } from '../../core/errors.ts'

export interface KafkaMessage {
  readonly topic: string
  readonly partition: number
  readonly key: Buffer | undefined
  readonly value: Buffer
  readonly headers: ReadonlyMap<Buffer, Buffer>
}

export interface Sending {
  send(options: { readonly messages: readonly KafkaMessage[]; readonly acks: -1 }): Promise<unknown>
}

export interface Transaction extends Sending {
  commit(): Promise<unknown>
  abort(): Promise<unknown>
}

interface Listening {
  on(event: string, listener: (payload: { readonly connection: Listening }) => void): unknown
}

export interface Producer extends Sending {
  readonly connections: Listening
  metadata(options: { readonly topics: readonly string[] }): Promise<{
    readonly topics: ReadonlyMap<string, { readonly partitionsCount: number } | undefined>
  }>
  beginTransaction(): Promise<Transaction>
  close(force: boolean): Promise<unknown>
}

export interface KafkaModule {
  readonly Producer: new (options: object) => Producer
  compatibilityPartitioner(message: unknown, key: Buffer): number
}

interface PartitionAnswer {
  readonly index: number
  readonly errorCode: number
  readonly errorMessage?: string | null
}

/** An error of the client; what the broker said is in the ones inside it. */
interface KafkaError extends Error {
  readonly code?: unknown
  readonly apiCode?: number
  readonly errors?: readonly KafkaError[]
  readonly response?: {
    readonly responses?: readonly {
      readonly name: string
      readonly partitionResponses: readonly PartitionAnswer[]
    }[]
  }
  /** What other brokers of the cluster had accepted when one failed. */
  readonly produced?: { readonly offsets?: readonly { readonly topic: string; readonly partition: number }[] }
}

/** Codes of the protocol that are about what was sent, and not about the place it was sent to. */
const REFUSALS: Readonly<Record<number, string>> = {
  10: 'it is larger than the broker takes',
  17: 'its topic has no valid name',
  18: 'it is larger than a segment of the log',
  32: 'its timestamp is not valid',
  43: 'the format of the log has no room for it',
  87: 'the broker refuses the record',
}

/** Codes that are about one topic: others may fare better. */
const UNKNOWN_TOPIC = 3
const ABOUT_TOPIC: Readonly<Record<number, string>> = {
  [UNKNOWN_TOPIC]: 'does not exist',
  29: 'is closed to us',
}

export const placeOf = (topic: string, partition: number): string => `${topic}:${partition}`

/** A batch that is refused has to be divided to find the record that is meant. */
export const isRefusal = (code: number): boolean => code in REFUSALS

/** Of a record. Its topic was there a moment ago, so if it is not now, the next send has to look again. */
export const recordFailure = (topic: string, code: number, detail: string | null | undefined): Error =>
  code === UNKNOWN_TOPIC
    ? new OutageError(`the partition has no leader now (Kafka's code ${code})`)
    : failureOf(topic, code, detail)

const failureOf = (topic: string, code: number, detail: string | null | undefined): Error => {
  const said = `(Kafka's code ${code}${detail ? `: ${detail}` : ''})`
  if (code in REFUSALS) return new PermanentError(`${REFUSALS[code]} ${said}`)
  if (code in ABOUT_TOPIC) return new Error(`topic ${topic} ${ABOUT_TOPIC[code]} ${said}`)
  return new OutageError(`Kafka could not take it now ${said}`)
}

const everyError = (error: KafkaError): KafkaError[] => [error, ...(error.errors ?? []).flatMap(everyError)]

/** The connection was gone before there was an answer. */
export const isClosed = (thrown: unknown): boolean =>
  everyError(thrown as KafkaError).some(({ code }) => code === 'PLT_KFK_NETWORK')

/** What became of each place, as far as the brokers said; those without an answer are absent. */
export const answersIn = (thrown: unknown): ReadonlyMap<string, PartitionAnswer> => {
  const answers = new Map<string, PartitionAnswer>()
  const error = thrown as KafkaError
  for (const { topic, partition } of error.produced?.offsets ?? [])
    answers.set(placeOf(topic, partition), { index: partition, errorCode: 0 })
  for (const { response } of everyError(error))
    for (const { name, partitionResponses } of response?.responses ?? [])
      for (const answer of partitionResponses) answers.set(placeOf(name, answer.index), answer)
  return answers
}

/** What a question about one topic failed for. The client turns an unknown topic into words. */
export const topicFailure = (topic: string, thrown: unknown): Error | null => {
  const error = thrown as KafkaError
  if (error.code === 'PLT_KFK_USER' && error.message.startsWith('Unknown topic'))
    return failureOf(topic, UNKNOWN_TOPIC, null)
  const code = everyError(error).find(({ apiCode }) => apiCode !== undefined)?.apiCode
  return code !== undefined && (code in REFUSALS || code in ABOUT_TOPIC) ? failureOf(topic, code, null) : null
}

/** The innermost reason: the outer ones only say that something failed. */
export const outageOf = (thrown: unknown): OutageError => {
  let error = thrown as KafkaError
  for (let inner = error.errors?.[0] ?? error.cause; inner instanceof Error; ) {
    error = inner
    inner = error.errors?.[0] ?? error.cause
  }
  return new OutageError(`Kafka could not be asked: ${error.message}`, { cause: thrown })
}
