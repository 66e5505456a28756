/** The store's own pool, when the process has no time for it. */
import { afterEach, expect, it } from 'vitest'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'

/** The pool gives up the wait for a connection after this too. */
const QUERY_TIMEOUT_MS = 1_000

let world: World

afterEach(() => world.close())

const standStill = (ms: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)

it('a process that stood still for longer than the pool waits goes on where it was', async () => {
  world = await createWorld(newPostgresUrl(), { poolSize: 2, queryTimeoutMs: QUERY_TIMEOUT_MS })
  const { store } = world.t
  // The store has one of the two connections: each of these waits for the one before it.
  const asked = Array.from({ length: 3 }, () => store.inspection.workers())
  standStill(2 * QUERY_TIMEOUT_MS)
  expect(await Promise.all(asked)).toHaveLength(3)
})
