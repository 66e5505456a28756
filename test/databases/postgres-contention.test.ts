/** Many at once on the same rows, and many first boots at once. */
import { type ChildProcess, fork } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { PermanentError } from '../../src/index.ts'
import { newPostgresUrl } from '../stores/servers.ts'
import { type PgOutbox, PostgresWorld, tick } from './postgres-world.ts'

let world: PostgresWorld

beforeEach(() => {
  world = new PostgresWorld(newPostgresUrl())
})

afterEach(() => world[Symbol.asyncDispose]())

const EVENTS = 600
const BATCH = 25
const KEYS = 12
/** Each has two settles under way, so sixteen write at once. */
const PROCESSES = 8
const DESTINATIONS = ['skipping', 'blocking'] as const

describe('settles, cleanup, redrive and discard at once on the same rows', () => {
  /** What each destination heard, however often. */
  const heard = new Map(DESTINATIONS.map((name) => [name, new Set<number>()]))

  const startProcess = async (): Promise<PgOutbox> => {
    const outbox = world.outbox({
      destinations: {
        skipping: { events: ['tick', 'junk'] },
        blocking: { events: ['tick'], deadHead: 'block' },
      },
      pollBatchSize: 20,
    })
    for (const name of DESTINATIONS) {
      outbox.on<{ n: number }>(name, 'tick', ({ payload: { n } }) => {
        const known = heard.get(name) as Set<number>
        const isFirst = !known.has(n)
        known.add(n)
        if (isFirst && n % 5 === 0) throw new PermanentError('refused the first time')
      })
    }
    outbox.on('skipping', 'junk', () => {
      throw new PermanentError('junk')
    })
    await outbox.start()
    return outbox
  }

  it('[41] no deadlock surfaces, nothing is left over or lost', async () => {
    const first = await startProcess()
    const others = await Promise.all(Array.from({ length: PROCESSES - 1 }, startProcess))
    const outboxes = [first, ...others]
    const publishing = async (): Promise<void> => {
      for (let n = 0; n < EVENTS; n += BATCH) {
        const outbox = outboxes[(n / BATCH) % PROCESSES] as PgOutbox
        const numbers = Array.from({ length: BATCH }, (_, i) => n + i)
        await outbox.transaction((tx) =>
          outbox.publishMany(tx, [
            ...numbers.map((each) => tick(each, each % 2 === 0 ? `k${each % KEYS}` : undefined)),
            { type: 'junk', payload: {}, key: 'junk' },
          ]),
        )
      }
    }
    let busy = true
    let acts = 0
    const operate = async (act: () => Promise<unknown>): Promise<void> => {
      while (busy) {
        await act()
        acts += 1
      }
    }
    const operating = Promise.all([
      operate(() => first.operator.cleanup({ before: new Date(Date.now() + 3_600_000), includeDead: false })),
      operate(() => first.operator.redrive({ destination: 'skipping', type: 'tick' })),
      operate(() => first.operator.redrive({ destination: 'blocking' })),
      operate(() => (others[0] as PgOutbox).operator.redrive({ destination: 'blocking', type: 'tick' })),
      operate(() => first.operator.discard({ type: 'junk' })),
      operate(() => (others[1] as PgOutbox).operator.discard({ destination: 'skipping', key: 'junk' })),
    ])
    await publishing()
    await world.drained()
    busy = false
    await operating
    for (const name of DESTINATIONS) expect(heard.get(name)?.size).toBe(EVENTS)
    expect(acts).toBeGreaterThan(20)
    // The sums that counts come from were changed by all of them.
    const counts = (await first.inspect.counts()).map((each) => each.counts)
    const [finished] = await world.rows<{ n: string }>('SELECT count(*) AS n FROM {schema}.finished')
    expect(counts.reduce((sum, { done, discarded }) => sum + done + discarded, 0)).toBe(Number(finished?.n))
    expect(counts.map(({ pending, retry, dead, held }) => pending + retry + dead + held)).toEqual([0, 0])
    const expected = [
      'a delivery is dead; redrive or discard it',
      // Discarded while it was under way.
      'our right to a delivery had run out; whoever has it now sends it',
    ]
    const troubles = world.log.filter(({ level }) => level === 'warn' || level === 'error')
    expect(troubles.filter(({ message }) => !expected.includes(message))).toEqual([])
  })
})

describe('ten processes that boot for the first time at once', () => {
  const boot = async (place: string): Promise<ChildProcess> => {
    const child = fork(new URL('./crew/migrator.ts', import.meta.url), [place], {
      execArgv: [...TYPESCRIPT],
    })
    await new Promise<void>((resolve, reject) => {
      child.once('message', () => resolve())
      child.once('exit', (code) => reject(new Error(`ended with ${code} before it was ready`)))
    })
    return child
  }

  const migrate = (child: ChildProcess): Promise<unknown> =>
    new Promise((resolve) => {
      let answer: unknown = null
      child.on('message', (message) => {
        answer = message
      })
      child.once('exit', (code) => resolve({ code, answer }))
      child.send('go')
    })

  it('[46] on an empty database leave one schema, and all of them work', async () => {
    const database = world.schema
    await world.rows(`CREATE DATABASE ${database}`)
    const url = new URL(world.url)
    url.pathname = `/${database}`
    const place = JSON.stringify({ kind: 'postgres', url: url.href, name: 'outbox' })
    const children = await Promise.all(Array.from({ length: 10 }, () => boot(place)))
    const answers = await Promise.all(children.map(migrate))
    const inside = new PostgresWorld(url.href)
    const migrations = await inside.rows<{ version: number }>(
      'SELECT version FROM outbox.migrations ORDER BY 1',
    )
    const events = await inside.rows('SELECT FROM outbox.events')
    await inside[Symbol.asyncDispose]()
    await world.rows(`DROP DATABASE ${database} WITH (FORCE)`)
    const latest = migrations.length
    expect(latest).toBeGreaterThan(0)
    expect(migrations.map(({ version }) => Number(version))).toEqual(
      Array.from({ length: latest }, (_, i) => i + 1),
    )
    expect(answers).toEqual(
      Array.from({ length: 10 }, () => ({ code: 0, answer: { current: latest, latest } })),
    )
    expect(events).toHaveLength(10)
  })
})
