/** The same transactions, with the monotonic time of each confirmed commit: for measuring commit to listener. */
import type { Transactions } from '../src/index.ts'

export const timedCommits = <Tx extends object, E>(
  inner: Transactions<Tx, E>,
  committed: (tx: Tx, at: number) => void,
): Transactions<Tx, E> => ({
  library: inner.library,
  executor: (tx) => inner.executor(tx),
  inTransaction: (tx) => inner.inTransaction(tx),
  async run(fn) {
    let handle: Tx | null = null
    const result = await inner.run((tx) => {
      handle = tx
      return fn(tx)
    })
    // Before anybody else hears of the commit: the outbox offers the events when this promise resolves.
    if (handle !== null) committed(handle, performance.now())
    return result
  },
})
