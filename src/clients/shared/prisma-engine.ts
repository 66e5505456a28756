/**
 * Prisma's engine, through which everything of its transactions passes. It is watched for statements that fail, and kept
 * from two things that nobody would notice: a statement that is sent after its nested transaction was undone, and one that
 * is answered although it was never carried out.
 */
import { undoneMeanwhile } from '../../stores/sql/transaction-scope.ts'
import { Doubts } from './doubts.ts'
import { type Level, Running, type TransactionEngine, type TransactionOfRequest } from './prisma-levels.ts'

export interface Engine extends TransactionEngine {
  request(
    query: unknown,
    options: { readonly interactiveTransaction?: TransactionOfRequest },
  ): Promise<unknown>
  /** What an application asks for in one turn of the event loop. */
  requestBatch(
    queries: readonly unknown[],
    options: { readonly transaction?: BatchTransaction },
  ): Promise<unknown[]>
}

interface BatchTransaction {
  readonly kind: string
  readonly options: Partial<TransactionOfRequest>
}

/**
 * Statements of ours that were called inside of a nested transaction, until they are sent. Prisma sends statements some
 * turns later than its rollback of a nested one, together with what the application asks for in the same turn, and what
 * comes after that would be part of the outer one. So each has a number by which it is known again.
 */
const called = new Map<string, Level>()
let lastCalled = 0

/** Sends a statement with its number, once or several times. */
export const sendNumbered = async <T>(
  level: Level | undefined,
  sql: string,
  send: (sql: string) => Promise<T>,
): Promise<T> => {
  if (level === undefined) return await send(sql)
  const number = String(++lastCalled)
  called.set(number, level)
  try {
    return await send(`${sql} /* posthaste ${number} */`)
  } finally {
    called.delete(number)
  }
}

const NUMBER = /\/\* posthaste (\d+) \*\//

/** Of a statement of ours that is known by its number. */
const levelOf = (query: unknown): Level | undefined => {
  const number = called.size === 0 ? undefined : NUMBER.exec(JSON.stringify(query) ?? '')?.[1]
  return number === undefined ? undefined : called.get(number)
}

const isLate = (query: unknown): boolean => levelOf(query)?.isUndone === true

/** Of all clients: a transaction is that of one engine. */
export const doubts = new Doubts()

/** An engine is watched once, however many clients are made of it. */
const engines = new WeakMap<Engine, Running>()

const isError = (answer: unknown): boolean => answer instanceof Error

const throwIfFailed = (results: readonly unknown[]): void => {
  const failed = results.find(isError)
  if (failed !== undefined) throw failed
}

/** Not carried out, although Prisma answers as if it had been. */
export class LeftOut extends Error {
  constructor(cause?: unknown) {
    super(
      'This statement was not carried out. Prisma sends together what is asked for in one turn, and one of those before it ' +
        'failed (see the cause): then Prisma leaves the rest out. Await what may fail before you send more.',
      { cause },
    )
    this.name = 'LeftOut'
  }
}

/** Prisma stops at the first that fails, gives fewer answers than there were statements, and takes that for success. */
const withLeftOut = (queries: readonly unknown[], answers: readonly unknown[]): unknown[] => {
  const failed = answers.findLast(isError)
  return queries.map((_, n) => (n < answers.length ? answers[n] : new LeftOut(failed)))
}

/**
 * Cut in front of each of ours that has a number: the engine sends one statement of a batch after the answer to the other, and
 * meanwhile the nested transaction may be undone.
 */
const partsOf = (queries: readonly unknown[]): unknown[][] => {
  const parts: unknown[][] = []
  for (const query of queries) {
    const last = parts.at(-1)
    if (last === undefined || levelOf(query) !== undefined) parts.push([query])
    else last.push(query)
  }
  return parts
}

/** A batch without those that come too late, whose answers are errors in their places. It ends where Prisma stops. */
const requestInTime = async (
  queries: readonly unknown[],
  request: (queries: readonly unknown[]) => Promise<unknown[]>,
): Promise<unknown[]> => {
  const answers: unknown[] = []
  for (const part of partsOf(queries)) {
    const isFirstLate = isLate(part[0])
    if (isFirstLate) answers.push(undoneMeanwhile())
    const rest = isFirstLate ? part.slice(1) : part
    if (rest.length === 0) continue
    try {
      const some = await request(rest)
      answers.push(...some)
      if (some.length < rest.length || some.some(isError)) break
    } catch (error) {
      // Refused before anything of this part was sent. What was carried out before it is answered as such.
      if (answers.length === 0) throw error
      return queries.map((_, n) => (n < answers.length ? answers[n] : error))
    }
  }
  return withLeftOut(queries, answers)
}

const ENGINE = ['transaction', 'request', 'requestBatch'] as const

/** Follows the requests of transactions. Null where the engine is not what it was. */
export const watchEngine = (engine: Engine | undefined): Running | null => {
  if (engine === undefined || ENGINE.some((name) => typeof engine[name] !== 'function')) return null
  const known = engines.get(engine)
  if (known !== undefined) return known
  const running = new Running(engine)
  engines.set(engine, running)
  const follow = <T>(id: unknown, answer: Promise<T>, judge: (result: T) => void): void => {
    const transaction = running.get(id)
    if (transaction !== undefined) doubts.follow(transaction, answer.then(judge))
  }
  const request = engine.request.bind(engine)
  const requestBatch = engine.requestBatch.bind(engine)
  engine.request = (query, options) => {
    const id = options.interactiveTransaction?.id
    const answer = isLate(query) ? Promise.reject(undoneMeanwhile()) : request(query, options)
    follow(id, answer, () => undefined)
    return answer
  }
  engine.requestBatch = (queries, options) => {
    const id = options.transaction?.kind === 'itx' ? options.transaction.options.id : undefined
    // The list of a `$transaction([…])` fails as a whole.
    if (id === undefined) return requestBatch(queries, options)
    const answer = requestInTime(queries, (part) => requestBatch(part, options))
    follow(id, answer, throwIfFailed)
    return answer
  }
  return running
}
