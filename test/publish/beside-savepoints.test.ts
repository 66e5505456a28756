import { describe, expect, it } from 'vitest'
import { defineEvent } from '../../src/core/define-event.ts'
import type { InsertRequest } from '../../src/core/spi/index.ts'
import { createWorld, deferred, FakeDatabase, type FakeTx, fakeTransactions, until } from './fixture.ts'
import { fine, type Hook, MOMENTS, type Moment, pausing, turn, undo, withHooks } from './slow-savepoints.ts'

const event = (type: string) => ({ type, payload: { n: 1 } })

/** Its schema answers later. */
const asking = (type: string) => {
  const validate = async (value: unknown) => ({ value })
  return defineEvent(type, { schema: { '~standard': { version: 1, vendor: 'slow', validate } } })
}

const pausedWorld = (at: Moment) => {
  const pause = pausing(at)
  return { ...pause, ...createWorld({ transactions: withHooks(pause.hook) }) }
}

/** With the outer handle, while a nested one that ends so is at this moment; nothing is sent before that goes on. */
const publishedBeside = async (at: Moment, end: () => Promise<unknown>) => {
  const { outbox, database, intake, reached, goOn } = pausedWorld(at)
  await outbox.transaction(async (tx) => {
    const nested = outbox.transaction(end).catch(() => undefined)
    await reached
    const beside = outbox.publish(tx, event('beside'))
    await turn()
    expect(database.sent).toBe(0)
    goOn()
    await beside
    await nested
  })
  return { database, intake }
}

describe('a publish beside a savepoint that is on its way', () => {
  for (const at of ['begin', 'begun'] as const) {
    it(`waits until it is there, and shares its fate (${at})`, async () => {
      for (const end of [undo, fine]) {
        const { database, intake } = await publishedBeside(at, end)
        expect(database.log.slice(0, 2)).toEqual(['savepoint', 'insert beside'])
        expect(database.rows).toHaveLength(end === fine ? 1 : 0)
        expect(intake.types).toEqual(end === fine ? ['beside'] : [])
      }
    })
  }

  for (const at of MOMENTS) {
    it(`is not overtaken by one that comes when the savepoint is there or gone (${at})`, async () => {
      // At some of these moments the gate is open, and who waited has not gone on yet.
      for (let later = 0; later < 40; later++) {
        const { outbox, database, reached, goOn } = pausedWorld(at)
        await outbox.transaction(async (tx) => {
          const nested = outbox.transaction(fine)
          await reached
          const first = outbox.publish(tx, event('first'))
          await turn()
          goOn()
          for (let n = 0; n < later; n++) await Promise.resolve()
          await Promise.all([first, outbox.publish(tx, event('second')), nested])
        })
        const inserts = database.log.filter((text) => text.startsWith('insert'))
        expect(inserts).toEqual(['insert first', 'insert second'])
      }
    })
  }

  for (const [beside, sent] of [
    ['nothing', []],
    ['one sent before', ['before']],
    ['one sent in the same turn', ['same']],
    ['its mark', []],
  ] as const)
    it(`may wait for it, also when both were called in the same turn (beside ${beside})`, async () => {
      const mark = async () => ({ id: 'mark', drop: async () => undefined })
      const { outbox, intake, runtime } = createWorld({
        ...(beside === 'its mark' ? { store: { mark } } : {}),
        transactions: (fake) => ({ ...fakeTransactions(fake), savepointsUnseen: beside === 'its mark' }),
      })
      // Nobody waits here but for each other.
      Object.assign(runtime, {
        schedule: (_: number, fn: () => void) => clearImmediate.bind(null, setImmediate(fn)),
      })
      await outbox.transaction(async (tx) => {
        const before = beside === 'one sent before' ? outbox.publish(tx, event('before')) : null
        const nested = outbox.transaction(async () => 'after')
        const same = beside === 'one sent in the same turn' ? outbox.publish(tx, event('same')) : null
        const validate = async () => ({ value: await nested })
        const late = defineEvent('late', {
          schema: { '~standard': { version: 1, vendor: 'late', validate } },
        })
        await Promise.all([before, same, outbox.publish(tx, late({}))])
      })
      expect(intake.types).toEqual([...sent, 'late'])
    })

  it('is not missed in the database when it was undone with it', async () => {
    const looked: string[] = []
    const pause = pausing('begin')
    const { outbox } = createWorld({
      transactions: withHooks(pause.hook),
      store: {
        transactions: fakeTransactions(new FakeDatabase()),
        inspection: { event: async (id: string) => void looked.push(id) } as never,
      },
    })
    await outbox.transaction(async (tx) => {
      const nested = outbox.transaction(undo).catch(() => undefined)
      await pause.reached
      const beside = outbox.publish(tx, event('beside'))
      await turn()
      pause.goOn()
      await Promise.all([beside, nested])
    })
    expect(looked).toEqual([])
  })

  it('is not in it when both were called in the same turn', async () => {
    for (const draft of [event('beside'), asking('beside')({})]) {
      const { outbox, database, intake } = createWorld()
      await outbox.transaction(async (tx) => {
        const nested = outbox.transaction(undo)
        await Promise.allSettled([nested, outbox.publish(tx, draft)])
      })
      expect(database.log).toEqual(['insert beside', 'savepoint', 'rollback to', 'commit'])
      expect(intake.types).toEqual(['beside'])
    }
  })

  it('is sent in its turn: before what the function of the nested one publishes', async () => {
    const { outbox, database, reached, goOn } = pausedWorld('begin')
    await outbox.transaction(async (tx) => {
      const nested = outbox.transaction(() => outbox.publish(event('third')))
      await reached
      const both = [outbox.publish(tx, event('first')), outbox.publish(tx, event('second'))]
      await turn()
      goOn()
      await Promise.all([...both, nested])
    })
    expect(database.log).toEqual([
      'savepoint',
      'insert first',
      'insert second',
      'insert third',
      'release',
      'commit',
    ])
  })

  it('goes on when that cannot begin', async () => {
    const { hook, reached, goOn } = pausing('begin')
    const failing: Hook = async (moment) => {
      await hook(moment)
      throw new Error('no connection')
    }
    const { outbox, database, intake } = createWorld({ transactions: withHooks(failing) })
    await outbox.transaction(async (tx) => {
      const nested = outbox.transaction(fine)
      nested.catch(() => undefined)
      await reached
      const beside = outbox.publish(tx, event('beside'))
      goOn()
      await beside
      await expect(nested).rejects.toThrow('no connection')
    })
    expect(database.log).toEqual(['insert beside', 'commit'])
    expect(intake.types).toEqual(['beside'])
  })

  it('goes on when the transaction turns out to be over', async () => {
    const asked = deferred()
    const answer = deferred()
    const markOuter = async () => ({
      require: async () => {
        asked.resolve()
        await answer.promise
        throw new Error('over')
      },
      drop: async () => undefined,
    })
    const { outbox, database, intake } = createWorld({ store: { markOuter } })
    await outbox.transaction(async (tx) => {
      const nested = outbox.transaction(fine)
      nested.catch(() => undefined)
      await asked.promise
      const beside = outbox.publish(tx, event('beside'))
      await turn()
      expect(database.sent).toBe(0)
      answer.resolve()
      await beside
      await expect(nested).rejects.toThrow('over')
    })
    expect(database.log).toEqual(['savepoint', 'rollback to', 'insert beside', 'commit'])
    expect(intake.types).toEqual(['beside'])
  })

  it('is refused when the transaction fails meanwhile, which waits for neither', async () => {
    for (const at of MOMENTS) {
      const { outbox, database, reached, goOn } = pausedWorld(at)
      let beside: Promise<unknown> | undefined
      const run = outbox.transaction(async (tx) => {
        void outbox.transaction(fine)
        await reached
        beside = outbox.publish(tx, event('beside'))
        setImmediate(goOn)
        throw new Error('business')
      })
      await expect(run).rejects.toThrow('business')
      await expect(beside).rejects.toMatchObject({ code: 'POSTHASTE_TRANSACTION_ENDED' })
      expect(database.log).toEqual(['savepoint', 'release', 'rollback'])
    }
  })

  it('waits with its mark as well', async () => {
    const marked: string[] = []
    const mark = async (tx: FakeTx) => {
      marked.push(`behind ${tx.rows.length}`)
      return { id: 'mark', drop: async () => undefined }
    }
    const pause = pausing('begin')
    const { outbox } = createWorld({
      store: { mark },
      transactions: (database) => ({ ...withHooks(pause.hook)(database), savepointsUnseen: true }),
    })
    await outbox.transaction(async (tx) => {
      const nested = outbox.transaction(fine)
      await pause.reached
      const beside = outbox.publish(tx, asking('slow')({}))
      await turn()
      expect(marked).toEqual([])
      pause.goOn()
      await Promise.all([beside, nested])
    })
    expect(marked).toEqual(['behind 0'])
  })
})

describe('a publish beside a savepoint that ends', () => {
  for (const at of ['end', 'ended'] as const) {
    it(`waits until it is gone, and is not undone with it (${at})`, async () => {
      for (const end of [undo, fine]) {
        const { database, intake } = await publishedBeside(at, end)
        const ended = end === fine ? 'release' : 'rollback to'
        expect(database.log).toEqual(['savepoint', ended, 'insert beside', 'commit'])
        expect(intake.types).toEqual(['beside'])
      }
    })
  }

  it('is finished first when it was sent before', async () => {
    for (const end of [undo, fine]) {
      const { outbox, database } = createWorld()
      const gate = deferred()
      await outbox.transaction(async (tx) => {
        const [entered, goOn] = [deferred(), deferred()]
        const nested = outbox.transaction(async () => {
          entered.resolve()
          await goOn.promise
          await end()
        })
        nested.catch(() => undefined)
        await entered.promise
        database.gate = gate.promise
        const beside = outbox.publish(tx, event('beside'))
        await until(() => database.sent === 1)
        goOn.resolve()
        await turn()
        gate.resolve()
        await Promise.allSettled([beside, nested])
      })
      const ended = end === fine ? 'release' : 'rollback to'
      expect(database.log).toEqual(['savepoint', 'insert beside', ended, 'commit'])
    }
  })

  it('is looked for when the library has given the savepoint up before its function ended', async () => {
    const gate = deferred()
    const { outbox, database, intake } = createWorld({
      transactions: (fake) => ({
        ...fakeTransactions(fake),
        nested: async (tx, fn) => {
          void fn(tx).catch(() => undefined)
          await until(() => fake.sent === 1)
          throw new Error('timed out')
        },
      }),
    })
    database.gate = gate.promise
    await outbox.transaction(async () => {
      const nested = outbox.transaction(() => outbox.publish(event('late')))
      await expect(nested).rejects.toThrow('timed out')
      gate.resolve()
      await until(() => database.log.length === 1)
    })
    expect(database.rows).toHaveLength(1)
    expect([intake.types, intake.expected]).toEqual([[], 1])
  })
})

it('publishSync beside a savepoint that begins is looked for when that is undone', async () => {
  const pause = pausing('begin')
  const { outbox, database, intake } = createWorld({
    synchronous: true,
    transactions: withHooks(pause.hook),
  })
  await outbox.transaction(async (tx) => {
    const nested = outbox.transaction(undo)
    nested.catch(() => undefined)
    await pause.reached
    outbox.publishSync(tx, event('beside'))
    pause.goOn()
    await expect(nested).rejects.toThrow('undo')
  })
  expect(database.rows).toHaveLength(1)
  expect([intake.types, intake.expected]).toEqual([[], 1])
})

it('without a nested transaction nothing waits: what is published is sent at once', async () => {
  const { outbox, database } = createWorld()
  await outbox.transaction(async (tx) => {
    const published = outbox.publish(tx, event('a'))
    expect(database.sent).toBe(1)
    await published
  })
})

it('every event is whole and known for what it is, whatever publishes and nested transactions do beside each other', async () => {
  for (let seed = 1; seed <= 200; seed++) {
    let state = seed
    const below = (limit: number): number => {
      state = (Math.imul(state, 48_271) >>> 0) % 2_147_483_647
      return state % limit
    }
    const wait = async (): Promise<void> => {
      for (let n = below(12); n > 0; n--) await Promise.resolve()
    }
    /** Two statements, and something may come between them. */
    const insert = async (tx: FakeTx, { events, deliveries }: InsertRequest) => {
      await wait()
      for (const one of events) tx.rows.push({ event: one, deliveries: [] })
      await wait()
      for (const one of events) tx.rows.push({ event: one, deliveries })
      await wait()
      return { duplicates: new Map<string, string>() }
    }
    const { outbox, database, intake } = createWorld({ store: { insert }, transactions: withHooks(wait) })
    let count = 0
    await outbox.transaction(async (tx) => {
      const beside = async (): Promise<void> => {
        for (let n = 0; n < 4; n++) {
          await wait()
          await outbox.publish(tx, event(`e${count++}`))
        }
      }
      const nest = async (): Promise<void> => {
        for (let n = 0; n < 3; n++) {
          await wait()
          const nested = outbox.transaction(async () => {
            await outbox.publish(event(`e${count++}`))
            await wait()
            if (below(2) === 0) throw new Error('undo')
          })
          await nested.catch(() => undefined)
        }
      }
      await Promise.all([beside(), beside(), nest()])
    })
    const written = database.rows.map((row) => row.event.type)
    const whole = database.rows.filter((row) => row.deliveries.length > 0).map((row) => row.event.type)
    expect(written.filter((type) => !whole.includes(type))).toEqual([])
    expect(written).toHaveLength(2 * whole.length)
    expect([...intake.types].sort()).toEqual([...whole].sort())
  }
})
