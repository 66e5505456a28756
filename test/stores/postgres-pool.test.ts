/** Pools of the store when the process has no time for them: it stands still for longer than a pool waits. */
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { createWorld, type World } from './postgres-words.ts'
import { newPostgresUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

/** A pool waits no longer either. */
const QUERY_TIMEOUT_MS = 1_000

/** The store has one of the two connections, and transactions the other. */
const SMALL = { poolSize: 2, queryTimeoutMs: QUERY_TIMEOUT_MS }

let world: World

beforeEach(async () => {
  world = await createWorld(newPostgresUrl(), SMALL)
})

afterEach(() => world.close())

const standStill = (): void =>
  void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * QUERY_TIMEOUT_MS)

describe('a process that stood still goes on', () => {
  it('with what waits for a connection in use', async () => {
    const asked = Array.from({ length: 3 }, () => world.t.store.inspection.workers())
    standStill()
    expect(await Promise.all(asked)).toHaveLength(3)
  })

  it('with what waits for a connection that is being made', async () => {
    const store = postgresStore({ connectionString: world.url, schema: world.schema, ...SMALL })
    await store.open(testContext())
    onTestFinished(() => store.close())
    const asked = store.inspection.workers()
    standStill()
    expect(await asked).toEqual([])
  })

  it('with transactions that wait for one another', async () => {
    const store = postgresStore({ connectionString: world.url, schema: world.schema, ...SMALL })
    const outbox = createOutbox({ store, serve: [] })
    onTestFinished(() => outbox.close())
    await outbox.start()
    const work = (n: number): Promise<string> =>
      outbox.transaction((tx) => outbox.publish(tx, { type: 'a', payload: n }))
    const works = [1, 2, 3].map(work)
    standStill()
    expect(await Promise.all(works)).toHaveLength(3)
  })
})
