/** Events that end the process which hears them, played without processes: a dead one does nothing any more. */
import { describe, expect, it } from 'vitest'
import { createOutbox, type DestinationOptions, fixed, type Store } from '../../src/index.ts'
import { createFakeRuntime, createMemoryDatabase, memoryStore } from '../../src/testing/index.ts'

const never = (): Promise<never> => new Promise(() => undefined)

/** A store of which nothing comes back, and into which nothing is written, once its process is dead. */
const mortal = (store: object, isDead: () => boolean): Store =>
  new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value === 'function') {
        return (...args: unknown[]) => (isDead() ? never() : (Reflect.apply(value, target, args) as unknown))
      }
      return typeof value === 'object' && value !== null && name !== 'database'
        ? mortal(value, isDead)
        : value
    },
  }) as Store

interface Place {
  readonly database: ReturnType<typeof createMemoryDatabase>
  readonly destinations: Readonly<Record<string, DestinationOptions>>
  /** Whether hearing this number at this destination ends the process. */
  readonly kills: (destination: string, n: number) => boolean
}

/** Processes, one after another, until one survives. Returns how many died. */
const liveAndDie = async (place: Place, now: { ms: number }): Promise<number> => {
  for (let deaths = 0; deaths < 40; deaths += 1) {
    const runtime = createFakeRuntime({ seed: deaths + 1, startAt: now.ms })
    let dead = false
    const store = mortal(memoryStore({ database: place.database }), () => dead)
    const outbox = createOutbox({ store, runtime, destinations: place.destinations })
    for (const name of Object.keys(place.destinations)) {
      outbox.on<number>(name as never, '*', ({ payload: n }) => {
        if (place.kills(name, n)) dead = true
        return dead ? never() : undefined
      })
    }
    await outbox.start()
    for (let waited = 0; waited < 240 && !dead; waited += 1) {
      await runtime.advance(500)
      now.ms = runtime.wallNow()
    }
    now.ms = runtime.wallNow() + 60_000
    if (!dead) {
      await outbox.close()
      return deaths
    }
  }
  throw new Error('it never ends')
}

const world = (count: number) => {
  const now = { ms: Date.UTC(2026, 0, 1) }
  const database = createMemoryDatabase({ clock: () => now.ms })
  const publish = async (): Promise<void> => {
    const runtime = createFakeRuntime({ seed: 99, startAt: now.ms })
    const outbox = createOutbox({ store: memoryStore({ database }), runtime })
    await outbox.transaction((tx) =>
      outbox.publishMany(
        tx,
        Array.from({ length: count }, (_, n) => ({ type: 'tick', payload: n })),
      ),
    )
    await outbox.close()
  }
  const states = (destination: string): string[] =>
    [...database.deliveriesInOrder]
      .filter((row) => row.destination === destination)
      .map(({ status }) => status)
  return { now, database, publish, states }
}

const expected = (count: number, poison: readonly number[]): string[] =>
  Array.from({ length: count }, (_, n) => (poison.includes(n) ? 'dead' : 'done'))

describe('an event that ends its process each time', () => {
  it.each([0, 5, 11])(
    '[70] is buried at its limit and its neighbours are not, as number %d of 12',
    async (poison) => {
      const { now, database, publish, states } = world(12)
      await publish()
      const retry = fixed({ delayMs: 1, maxAttempts: 2 })
      const deaths = await liveAndDie(
        {
          database,
          destinations: { sink: { events: ['*'], retry, concurrency: 4 } },
          kills: (_, n) => n === poison,
        },
        now,
      )
      expect(states('sink')).toEqual(expected(12, [poison]))
      expect(deaths).toBeLessThanOrEqual(12)
    },
  )

  it('[70] of which there are several among neighbours', async () => {
    const { now, database, publish, states } = world(16)
    await publish()
    const retry = fixed({ delayMs: 1, maxAttempts: 2 })
    await liveAndDie(
      {
        database,
        destinations: { sink: { events: ['*'], retry, concurrency: 4 } },
        kills: (_, n) => n === 3 || n === 5,
      },
      now,
    )
    expect(states('sink')).toEqual(expected(16, [3, 5]))
  })

  it('[70] at one destination costs another destination nothing', async () => {
    const { now, database, publish, states } = world(8)
    await publish()
    const retry = fixed({ delayMs: 1, maxAttempts: 2 })
    const destinations = { calm: { events: ['*'], retry }, deadly: { events: ['*'], retry } }
    await liveAndDie({ database, destinations, kills: (name, n) => name === 'deadly' && n === 0 }, now)
    expect(states('calm')).toEqual(expected(8, []))
    expect(states('deadly')).toEqual(expected(8, [0]))
  })
})
