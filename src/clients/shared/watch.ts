/**
 * Follows the statements of connections that tell nobody what became of them. A function is replaced once per connection,
 * however many clients there are, and connections go from one transaction to the next.
 */
import type { Doubts } from './doubts.ts'

interface Current {
  doubts: Doubts
  subject: object
}

type Answer = PromiseLike<unknown> | AsyncIterable<unknown>
type Send = (...args: unknown[]) => Answer

const watched = new WeakMap<object, Current>()

const isStream = (answer: Answer): answer is AsyncIterable<unknown> => Symbol.asyncIterator in answer

/** Follows what a call of this function answers. */
const following =
  (connection: object, send: Send, current: Current): Send =>
  (...args) => {
    const { doubts, subject } = current
    try {
      const answer = send.apply(connection, args)
      if (isStream(answer)) return doubts.followStream(subject, answer)
      doubts.follow(subject, answer)
      return answer
    } catch (error) {
      // Drivers of SQLite throw at once.
      doubts.raise(subject)
      throw error
    }
  }

/** From now on statements that go through these functions of the connection are those of the subject. */
export const watchStatements = (
  connection: object,
  names: readonly string[],
  doubts: Doubts,
  subject: object,
): void => {
  const known = watched.get(connection)
  if (known !== undefined) {
    Object.assign(known, { doubts, subject })
    return
  }
  const current: Current = { doubts, subject }
  watched.set(connection, current)
  const members = connection as Record<string, Send>
  for (const name of names) members[name] = following(connection, members[name] as Send, current)
}
