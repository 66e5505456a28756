import { describe, expect, it } from 'vitest'
import { defineEvent } from '../../src/core/define-event.ts'
import { createFakeRuntime } from '../../src/testing/fake-runtime.ts'
import { createWorld, deferred, type FakeTx } from './fixture.ts'
import { fine, undo } from './slow-savepoints.ts'

const event = (type: string) => ({ type, payload: { n: 1 } })

/** Time passes when a test says so; `publishSlow` has a schema that answers when `answer` does. */
const clockedWorld = () => {
  const [clock, world] = [createFakeRuntime(), createWorld()]
  Object.assign(world.runtime, { schedule: clock.schedule.bind(clock) })
  const publishSlow = (tx: FakeTx, type: string, answer: () => Promise<unknown>) => {
    const validate = async (value: unknown) => {
      await answer()
      return { value }
    }
    const slow = defineEvent(type, { schema: { '~standard': { version: 1, vendor: 'slow', validate } } })
    return world.outbox.publish(tx, slow({}))
  }
  return { ...world, clock, publishSlow }
}

type World = ReturnType<typeof clockedWorld>

const STUCK = { code: 'POSTHASTE_CONFLICT', message: expect.stringContaining('await that first') }
const ENDED = { code: 'POSTHASTE_TRANSACTION_ENDED' }
const WAITING = Symbol('waiting')

/** What became of it within a minute. */
const outcomeOf = (clock: World['clock'], work: Promise<unknown>): Promise<unknown> => {
  const settled = work.catch((error: unknown) => error)
  return Promise.race([settled, clock.advance(60_000).then(() => WAITING)])
}

/** A publish waits for nested transactions that wait for it; `hear` is what its schema does with their answer. */
type Form = (
  world: World,
  tx: FakeTx,
  hear: (nested: Promise<unknown>) => Promise<unknown>,
) => Promise<unknown>

const FORMS: Readonly<Record<string, Form>> = {
  'one in another': ({ outbox, publishSlow }, tx, hear) => {
    const nested = outbox.transaction(() => outbox.transaction(fine))
    return publishSlow(tx, 'late', () => hear(nested))
  },
  'one after another': ({ outbox, publishSlow }, tx, hear) => {
    const nested = outbox.transaction(fine).then(() => outbox.transaction(fine))
    return publishSlow(tx, 'late', () => hear(nested))
  },
  'one that is called after the publish': ({ outbox, publishSlow }, tx, hear) => {
    const called = deferred()
    let nested: Promise<unknown> = called.promise
    const late = publishSlow(tx, 'late', async () => {
      await called.promise
      await hear(nested)
    })
    nested = outbox.transaction(fine)
    called.resolve()
    return late
  },
}

describe('a nested transaction that waits for a publish that waits for it', () => {
  for (const [name, form] of Object.entries(FORMS)) {
    it(`hears of it after a while, and the transaction is rolled back (${name})`, async () => {
      const world = clockedWorld()
      const { outbox, database, intake, clock } = world
      const run = outbox.transaction((tx) => form(world, tx, (nested) => nested))
      expect(await outcomeOf(clock, run)).toMatchObject({ cause: STUCK })
      expect(database.log.at(-1)).toBe('rollback')
      expect([database.rows, intake.types]).toEqual([[], []])
      expect(clock.nextTimerInMs).toBeNull()
    })

    it(`hears of it after a while, and the transaction may go on (${name})`, async () => {
      const world = clockedWorld()
      const { outbox, database, intake, clock } = world
      let heard: unknown
      const run = outbox.transaction(async (tx) => {
        await form(world, tx, async (nested) => {
          heard = await nested.catch((error: unknown) => error)
        })
        database.log.length = 0
        await outbox.publish(tx, event('outside'))
        await outbox.transaction(() => outbox.publish(event('inside')))
        await outbox.transaction(undo).catch(() => undefined)
      })
      expect(await outcomeOf(clock, run)).toBeUndefined()
      expect(heard).toMatchObject(STUCK)
      const nested = ['savepoint', 'insert inside', 'release', 'savepoint', 'rollback to']
      expect(database.log).toEqual(['insert outside', ...nested, 'commit'])
      expect(intake.types).toEqual(['late', 'outside', 'inside'])
      expect(clock.nextTimerInMs).toBeNull()
    })
  }
})

describe('a nested transaction that waits for a publish before it', () => {
  it('begins when that is stored, and leaves no timer', async () => {
    const { outbox, database, clock, publishSlow } = clockedWorld()
    const answer = deferred()
    await outbox.transaction(async (tx) => {
      const before = publishSlow(tx, 'before', () => answer.promise)
      const nested = outbox.transaction(async () => clock.nextTimerInMs)
      await clock.advance(29_999)
      expect(database.log).toEqual([])
      answer.resolve()
      expect(await nested).toBeNull()
      await before
    })
    expect(database.log).toEqual(['insert before', 'savepoint', 'release', 'commit'])
  })

  it('gives the database all the time that it takes to store that', async () => {
    const { outbox, database, clock } = clockedWorld()
    const stored = deferred()
    database.gate = stored.promise
    await outbox.transaction(async (tx) => {
      const before = outbox.publish(tx, event('before'))
      const nested = outbox.transaction(async () => clock.nextTimerInMs)
      await clock.advance(100_000)
      stored.resolve()
      expect(await nested).toBeNull()
      await before
    })
    expect(database.log).toEqual(['insert before', 'savepoint', 'release', 'commit'])
  })

  for (const [called, limitMs] of [
    ['before', 30_000],
    ['in the same turn', 1_000],
  ] as const)
    it(`is over with the transaction, and leaves no timer (the publish called ${called})`, async () => {
      const { outbox, database, clock, publishSlow } = clockedWorld()
      let nested: Promise<unknown> | undefined
      const run = outbox.transaction(async (tx) => {
        const publish = () => publishSlow(tx, 'never', () => new Promise(() => undefined))
        if (called === 'before') void publish()
        nested = outbox.transaction(fine)
        if (called !== 'before') void publish()
        await clock.settle()
        expect(clock.nextTimerInMs).toBe(limitMs)
        throw new Error('business')
      })
      await expect(run).rejects.toThrow('business')
      await clock.settle()
      expect(clock.nextTimerInMs).toBeNull()
      await expect(nested).rejects.toMatchObject(ENDED)
      expect(database.log).toEqual(['rollback'])
    })
})

describe('a nested transaction and publishes that are called while it waits', () => {
  for (const called of ['before', 'in the same turn'] as const)
    it(`begins when they are stored, and leaves no timer (the first one called ${called})`, async () => {
      const { outbox, database, clock, publishSlow } = clockedWorld()
      await outbox.transaction(async (tx) => {
        const [first, second, third] = [deferred(), deferred(), deferred()]
        const publishFirst = () => publishSlow(tx, 'first', () => first.promise)
        const before = called === 'before' ? publishFirst() : null
        const nested = outbox.transaction(async () => clock.nextTimerInMs)
        const same = before ?? publishFirst()
        await clock.advance(300)
        const next = publishSlow(tx, 'second', () => second.promise)
        first.resolve()
        await same
        await clock.advance(300)
        const last = publishSlow(tx, 'third', () => third.promise)
        second.resolve()
        await next
        await clock.advance(300)
        expect(database.log).toEqual(['insert first', 'insert second'])
        third.resolve()
        await last
        expect(await nested).toBeNull()
      })
      const stored = ['insert first', 'insert second', 'insert third']
      expect(database.log).toEqual([...stored, 'savepoint', 'release', 'commit'])
    })

  it('waits a second for all of them together', async () => {
    const { outbox, database, clock, publishSlow } = clockedWorld()
    await outbox.transaction(async (tx) => {
      const [first, second] = [deferred(), deferred()]
      const nested = outbox.transaction(fine)
      const same = publishSlow(tx, 'first', () => first.promise)
      await clock.advance(600)
      const next = publishSlow(tx, 'second', () => second.promise)
      first.resolve()
      await clock.advance(399)
      expect(database.log).toEqual(['insert first'])
      await clock.advance(1)
      await nested
      second.resolve()
      await Promise.all([same, next])
    })
    expect(database.log).toEqual(['insert first', 'savepoint', 'release', 'insert second', 'commit'])
  })
})
