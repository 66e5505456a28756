/** What `pg` says once per process, so in a file of its own. */
import { once } from 'node:events'
import { setImmediate as nextTurn } from 'node:timers/promises'
import pg from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { draft, open, publishingFirst, rows, setUp, stored } from './with-commit-words.ts'

setUp()

it('a publish is no reason for the driver to warn, on whichever connection and whatever follows', async () => {
  const warnings: string[] = []
  const note = ({ name, message }: Error): void => void warnings.push(`${name}: ${message}`)
  process.on('warning', note)
  onTestFinished(() => void process.off('warning', note))
  const { outbox, pool } = await open({ max: 3 })
  const publishFirst = publishingFirst(outbox, (tx) => outbox.publish(tx, draft()))
  await publishFirst()
  // On connections that have never seen a publish, by a `query()` that has.
  const held = await pool.connect()
  await Promise.all([publishFirst(), publishFirst()]).finally(() => held.release())
  await nextTurn()
  expect(warnings).toEqual([])
  expect([await rows(), await stored()]).toEqual([3, 6])
  // So it would have been heard.
  const client = new pg.Client(pool.options)
  await client.connect()
  onTestFinished(() => client.end())
  const warned = once(process, 'warning')
  await Promise.all([1, 2, 3].map((n) => client.query('SELECT $1::int', [n])))
  expect(((await warned)[0] as Error).message).toContain('client.query()')
})
