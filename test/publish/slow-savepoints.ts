/** A library that takes its time to begin and to end a savepoint, and calls hooks of the application meanwhile. */
import type { Transactions } from '../../src/core/spi/index.ts'
import { deferred, type FakeDatabase, type FakeTx, fakeTransactions } from './fixture.ts'

/** `begin` and `end` come before the statement, `begun` and `ended` after it. */
export type Moment = 'begin' | 'begun' | 'end' | 'ended'

export const MOMENTS: readonly Moment[] = ['begin', 'begun', 'end', 'ended']

export type Hook = (moment: Moment) => unknown

export const withHooks =
  (hook: Hook) =>
  (database: FakeDatabase): Transactions<FakeTx, FakeTx> => {
    const transactions = fakeTransactions(database)
    const nested = transactions.nested as NonNullable<typeof transactions.nested>
    const around: typeof nested = async (tx, fn) => {
      await hook('begin')
      try {
        return await nested(tx, async (inner) => {
          await hook('begun')
          try {
            return await fn(inner)
          } finally {
            await hook('end')
          }
        })
      } finally {
        await hook('ended')
      }
    }
    return { ...transactions, nested: around }
  }

/** Waits at one moment until it is told to go on. */
export const pausing = (at: Moment) => {
  const [reached, goOn] = [deferred(), deferred()]
  const hook: Hook = async (moment) => {
    if (moment !== at) return
    reached.resolve()
    await goOn.promise
  }
  return { hook, reached: reached.promise, goOn: goOn.resolve }
}

export const undo = async (): Promise<never> => {
  throw new Error('undo')
}

export const fine = async (): Promise<void> => undefined

/** Long enough for whatever would be sent at once. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
