import { expect, it } from 'vitest'
import type { Store, Transactions } from '../spi/index.ts'
import { Frame } from './frame.ts'
import { SameDatabase } from './same-database.ts'
import type { Place } from './scopes.ts'

it('misses events also when several commits are looked for at once', async () => {
  const told: string[] = []
  const answers: (() => void)[] = []
  const inspection = { event: () => new Promise<null>((resolve) => answers.push(() => resolve(null))) }
  const store = { transactions: {}, inspection } as unknown as Store<never, unknown>
  const sameDatabase = new SameDatabase(store, { log: (_level, message) => void told.push(message) })
  const transactions = { library: 'another' } as Transactions<unknown, unknown>

  for (let n = 0; n < 5; n++) {
    const frame = new Frame(null)
    sameDatabase.watch({ transactions, frame } as Place, `event ${n}`)
    for (const committed of frame.afterCommit) await committed()
  }
  expect(answers).toHaveLength(5)
  for (const answer of answers) answer()
  await new Promise((resolve) => setImmediate(resolve))

  expect(told).toEqual([expect.stringContaining('two databases')])
})
