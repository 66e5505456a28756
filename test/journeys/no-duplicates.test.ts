import { rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'

const folder = await mkdtemp(join(tmpdir(), 'posthaste-duplicates-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('without a fault there are no duplicates', () => {
  it('also when the hot path and a busy poller meet at the same keyed rows', async () => {
    // Reads that kept keyed rows in memory from one poll to the next once sent them after the hot path had.
    const outbox = createOutbox({
      store: sqliteStore({ file: join(folder, 'a.db') }),
      pollIntervalMs: 10,
      pollIdleMaxMs: 10,
      sweepIntervalMs: 10,
    })
    const heard = new Map<string, number>()
    const order = new Map<string, number[]>()
    const expected = 600
    let finish = (): void => undefined
    const all = new Promise<void>((resolve) => {
      finish = resolve
    })
    outbox.on<{ key: string; n: number }>('thing.happened', async ({ id, payload }) => {
      heard.set(id, (heard.get(id) ?? 0) + 1)
      order.set(payload.key, [...(order.get(payload.key) ?? []), payload.n])
      await new Promise((resolve) => setImmediate(resolve))
      if (heard.size === expected) finish()
    })
    await outbox.start()
    const writers = Array.from({ length: 4 }, async (_, writer) => {
      for (let n = writer; n < expected; n += 4) {
        const key = `k${writer}-${n % 3}`
        await outbox.transaction((tx) =>
          outbox.publish(tx, { type: 'thing.happened', key, payload: { key, n } }),
        )
      }
    })
    await Promise.all(writers)
    await all
    await outbox.close()
    expect([...heard.values()].filter((count) => count > 1)).toEqual([])
    for (const numbers of order.values()) expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
  })
})
