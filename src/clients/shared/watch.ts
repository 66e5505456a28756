/**
 * Follows the statements of connections that tell nobody what became of them. A function is replaced once per connection,
 * however many clients there are, and connections go from one transaction to the next.
 */
import type { Doubts } from './doubts.ts'

interface Current {
  doubts: Doubts
  subject: object
}

type Send = (...args: unknown[]) => PromiseLike<unknown>

const watched = new WeakMap<object, Current>()

/** Follows what a call of this function answers. */
const following =
  (connection: object, send: Send, current: Current): Send =>
  (...args) => {
    try {
      const answer = send.apply(connection, args)
      current.doubts.follow(current.subject, answer)
      return answer
    } catch (error) {
      // Drivers of SQLite throw at once.
      current.doubts.raise(current.subject)
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
