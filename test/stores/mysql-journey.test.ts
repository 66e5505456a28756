/** The whole outbox on a real server: two processes' worth of workers, publishers at once, failures in between. */
import { describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { dropTables, newPrefix } from './mysql-harness.ts'
import { SERVERS } from './mysql-words.ts'
import { serverUrl } from './servers.ts'
import { until } from './until.ts'

const KEYS = 12
const EACH = 40

describe.each(SERVERS)('%s', (server) => {
  it('carries every event once, and those of a key in order', async () => {
    const prefix = newPrefix()
    const heard: { key: string; n: number }[] = []
    const failed = new Set<string>()
    const begin = async () => {
      const store = mysqlStore({ connectionString: serverUrl(server), prefix })
      const outbox = createOutbox({
        store,
        migrate: true,
        retry: { maxAttempts: 10, computeDelayMs: () => 20 },
      })
      outbox.on('order.placed', async ({ payload }) => {
        const { key, n } = payload as { key: string; n: number }
        // Every tenth is refused once.
        const name = `${key} ${n}`
        if (n % 10 === 3 && !failed.has(name)) {
          failed.add(name)
          throw new Error('not now')
        }
        heard.push({ key, n })
      })
      await outbox.start()
      return outbox
    }
    const outboxes = [await begin(), await begin()]
    await Promise.all(
      Array.from({ length: KEYS }, async (_, k) => {
        const key = k === 0 ? null : `k${k}`
        for (let n = 0; n < EACH; n++) {
          const outbox = outboxes[(k + n) % 2]!
          await outbox.transaction(async (tx) => {
            await outbox.publish(tx, { type: 'order.placed', payload: { key: String(key), n }, key })
          })
        }
      }),
    )
    await until('everything was heard', async () => heard.length >= KEYS * EACH)
    for (const outbox of outboxes) await outbox.close()
    expect(heard.length).toBe(KEYS * EACH)
    for (let k = 1; k < KEYS; k++) {
      const mine = heard.filter(({ key }) => key === `k${k}`).map(({ n }) => n)
      expect(mine).toEqual(Array.from({ length: EACH }, (_, n) => n))
    }
    await dropTables(server, prefix)
  })
})
