import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineEvent, ofJson } from '../../src/core/define-event.ts'
import { createWorld, deferred, type FakeTx, fakeTransactions } from './fixture.ts'

const event = (type: string, more: object = {}) => ({ type, payload: { n: 1 }, ...more })

describe('the ambient transaction', () => {
  it('is used when no handle is given, across awaits and helpers', async () => {
    const { outbox, intake } = createWorld()
    const helper = async () => {
      await new Promise((resolve) => setImmediate(resolve))
      await outbox.publish(event('a'))
      await outbox.publishMany([event('b'), event('c')])
    }
    await outbox.transaction(helper)
    expect(intake.types).toEqual(['a', 'b', 'c'])
  })

  it('works with methods that were taken off the outbox', async () => {
    const { outbox, intake } = createWorld()
    const { transaction, publish } = outbox
    await transaction(() => publish(event('a')))
    expect(intake.types).toEqual(['a'])
  })

  it('is the very handle of the business writes, and of the innermost savepoint', async () => {
    const { outbox } = createWorld({ library: { ownNestedHandle: true } })
    expect(outbox.txContext.isTransactionActive()).toBe(false)
    expect(() => outbox.txContext.currentConnection()).toThrow(/outbox\.transaction/)
    await outbox.transaction(async (tx) => {
      expect(outbox.txContext.isTransactionActive()).toBe(true)
      expect(outbox.txContext.currentConnection()).toBe(tx)
      await outbox.transaction((inner) => expect(outbox.txContext.currentConnection()).toBe(inner))
    })
    expect(outbox.txContext.isTransactionActive()).toBe(false)
  })

  it('keeps concurrent transactions apart', async () => {
    const { outbox, intake } = createWorld()
    const first = deferred()
    await Promise.all([
      outbox
        .transaction(async () => {
          await outbox.publish(event('lost'))
          await first.promise
          throw new Error('undo')
        })
        .catch(() => undefined),
      outbox.transaction(async () => {
        await outbox.publish(event('kept'))
        first.resolve()
      }),
    ])
    expect(intake.types).toEqual(['kept'])
  })

  it('is over for callbacks after the commit, which may begin another', async () => {
    const { outbox, intake } = createWorld()
    const again = deferred<string>()
    await outbox.transaction(() => {
      outbox.txContext.afterCommit(() => {
        outbox.transaction(() => outbox.publish(event('follow-up'))).then(again.resolve, again.reject)
      })
    })
    await again.promise
    expect(intake.types).toEqual(['follow-up'])
  })
})

describe('a transaction begun by hand', () => {
  it('publishes by its own methods, as a handle, and by the library’s handle', async () => {
    const { outbox, intake } = createWorld()
    const tx = await outbox.begin()
    await tx.publish(event('a'))
    await outbox.publish(tx, event('b'))
    await outbox.publish(tx.tx, event('c'))
    await tx.run(() => outbox.publish(event('d')))
    await tx.publishMany([event('e')])
    expect(intake.offered).toEqual([])
    await tx.commit()
    expect(intake.types).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  it('rolls back at the end of an await using block that did not commit', async () => {
    const { outbox, database, intake } = createWorld()
    const block = async () => {
      await using tx = await outbox.begin()
      await tx.publish(event('a'))
      throw new Error('business')
    }
    await expect(block()).rejects.toThrow('business')
    expect(database.log).toEqual(['insert a', 'rollback'])
    expect(intake.offered).toEqual([])
  })

  it('commits once in an await using block', async () => {
    const { outbox, database } = createWorld()
    {
      await using tx = await outbox.begin()
      await tx.publish(event('a'))
      await tx.commit()
    }
    expect(database.log).toEqual(['insert a', 'commit'])
  })

  it('[8] refuses everything after its end', async () => {
    const { outbox } = createWorld()
    const ended = { code: 'POSTHASTE_TRANSACTION_ENDED' }
    const tx = await outbox.begin()
    await tx.commit()
    await expect(tx.publish(event('a'))).rejects.toMatchObject(ended)
    await expect(outbox.publish(tx, event('a'))).rejects.toMatchObject(ended)
    await expect(outbox.publish(tx.tx, event('a'))).rejects.toMatchObject(ended)
    await expect(tx.commit()).rejects.toMatchObject(ended)
    await expect(tx.rollback()).rejects.toMatchObject(ended)
  })

  it('says why it could not be committed, also where the rollback fails', async () => {
    const { outbox, database } = createWorld()
    database.failInsert = new Error('no room')
    database.rollback = () => {
      throw new Error('the connection is gone')
    }
    const tx = await outbox.begin()
    const publishing = tx.publish(event('a')).catch(() => undefined)
    await expect(tx.commit()).rejects.toThrow('no room')
    await publishing
  })

  it('[3] offers nothing when the answer to COMMIT was lost', async () => {
    const { outbox, database, intake } = createWorld()
    database.commitAnswer = 'unknown'
    const tx = await outbox.begin()
    await tx.publish(event('a'))
    await expect(tx.commit()).rejects.toMatchObject({ code: 'POSTHASTE_COMMIT_UNKNOWN' })
    expect(intake.offered).toEqual([])
  })

  it('[8] waits for un-awaited publishes before it commits', async () => {
    const { outbox, database } = createWorld()
    const gate = deferred()
    database.gate = gate.promise
    const tx = await outbox.begin()
    void tx.publish(event('a'))
    setTimeout(gate.resolve, 5)
    await tx.commit()
    expect(database.log).toEqual(['insert a', 'commit'])
  })

  it('is refused, with advice, where the library only knows functions', async () => {
    const { outbox } = createWorld({ library: { manual: false } })
    await expect(outbox.begin()).rejects.toMatchObject({ code: 'POSTHASTE_UNSUPPORTED' })
  })
})

describe('aggregates', () => {
  const aggregate = (...types: string[]) => ({
    events: types.map((type) => event(type)),
    pullEvents() {
      return this.events.splice(0)
    },
  })

  it('that are tracked are pulled just before commit, until they have no more', async () => {
    const { outbox, intake, database } = createWorld()
    await outbox.transaction(async () => {
      const order = outbox.track(aggregate('a'))
      outbox.track(order)
      order.events.push(event('b'))
      expect(database.log).toEqual([])
    })
    expect(intake.types).toEqual(['a', 'b'])
  })

  it('that collect more while they are pulled are pulled again', async () => {
    const { outbox, intake } = createWorld()
    let rounds = 0
    await outbox.transaction(() => {
      outbox.track({ pullEvents: async () => (rounds++ < 3 ? [event(`round${rounds}`)] : []) })
    })
    expect(intake.types).toEqual(['round1', 'round2', 'round3'])
  })

  it('that never run dry fail the transaction instead of hanging it', async () => {
    const { outbox, intake } = createWorld()
    const run = outbox.transaction(() => {
      outbox.track({ pullEvents: () => [event('again')] })
    })
    await expect(run).rejects.toThrow(/hand over each event once/)
    expect(intake.offered).toEqual([])
  })

  it('tracked in a rolled-back savepoint are forgotten', async () => {
    const { outbox, intake } = createWorld()
    await outbox.transaction(async () => {
      await outbox
        .transaction(() => {
          outbox.track(aggregate('lost'))
          throw new Error('undo')
        })
        .catch(() => undefined)
      await outbox.transaction(() => outbox.track(aggregate('kept')))
    })
    expect(intake.types).toEqual(['kept'])
  })

  it('can be published from explicitly, by hand or in a manual transaction', async () => {
    const { outbox, intake } = createWorld()
    const ids = await outbox.transaction((tx) => outbox.publishFrom(tx, aggregate('a', 'b'), aggregate('c')))
    expect(ids).toHaveLength(3)
    const manual = await outbox.begin()
    manual.track(aggregate('d'))
    await manual.publishFrom(aggregate('e'))
    await manual.commit()
    expect(intake.types).toEqual(['a', 'b', 'c', 'e', 'd'])
  })

  it('[74] fail loudly when they are none', async () => {
    const { outbox } = createWorld()
    expect(() => outbox.track(aggregate('a'))).toThrow(/no transaction/)
    await outbox.transaction(async (tx) => {
      expect(() => outbox.track({} as never)).toThrow(/pullEvents/)
      await expect(outbox.publishFrom(tx, { pullEvents: () => 'x' } as never)).rejects.toThrow(/array/)
    })
  })
})

describe('duplicates', () => {
  it('publish nothing and return the first event’s id', async () => {
    const { outbox, database, intake } = createWorld()
    const publish = () => outbox.transaction((tx) => outbox.publish(tx, event('a', { idempotencyKey: 'k' })))
    const first = await publish()
    expect(intake.offered.map((hot) => hot.token)).toEqual([null])
    intake.offered = []
    expect(await publish()).toBe(first)
    expect(database.rows).toHaveLength(1)
    expect(intake.offered).toEqual([])
  })

  it('within one call become one event', async () => {
    const { outbox, database } = createWorld()
    const twice = [
      event('a', { idempotencyKey: 'k' }),
      event('b', { idempotencyKey: 'k' }),
      event('a', { idempotencyKey: 'k' }),
    ]
    const ids = await outbox.transaction((tx) => outbox.publishMany(tx, twice))
    expect(ids[2]).toBe(ids[0])
    expect(ids[1]).not.toBe(ids[0])
    expect(database.inserts[0]?.events).toHaveLength(2)
  })
})

describe('a second library', () => {
  it('has its own transactions, and the ambient publish finds them', async () => {
    const { outbox, database, intake } = createWorld()
    const knex = outbox.via(fakeTransactions(database))
    await knex.transaction(async (tx) => {
      await knex.publish(tx, event('a'))
      await outbox.publish(event('b'))
      await outbox.publish(tx, event('c'))
    })
    expect(intake.types).toEqual(['a', 'b', 'c'])
  })

  it('does not nest in a transaction of the first one', async () => {
    const { outbox, database, intake } = createWorld()
    const knex = outbox.via(fakeTransactions(database))
    const outer = outbox.transaction(async () => {
      await knex.transaction(() => knex.publish(event('independent')))
      throw new Error('undo')
    })
    await expect(outer).rejects.toThrow('undo')
    expect(intake.types).toEqual(['independent'])
  })
})

describe('publishSync', () => {
  const open = (): FakeTx => ({ rows: [], active: true })

  it('stores one event or many in a synchronous transaction', () => {
    const { outbox, intake } = createWorld({ synchronous: true })
    const tx = open()
    expect(outbox.publishSync(tx, event('a'))).toEqual(expect.any(String))
    expect(outbox.publishSync(tx, [event('b'), event('c')])).toHaveLength(2)
    expect(tx.rows.map((row) => row.event.type)).toEqual(['a', 'b', 'c'])
    expect(intake.expected).toBe(2)
  })

  it('inside a transaction of ours is offered, but never born claimed', async () => {
    const { outbox, intake } = createWorld({ synchronous: true })
    await outbox.transaction((tx) => outbox.publishSync(tx, event('a')))
    expect(intake.offered.map((hot) => hot.token)).toEqual([null])
  })

  it('refuses an asynchronous schema, and a store without a synchronous driver', () => {
    const checked = defineEvent('a', { schema: z.object({}).refine(async () => true) })
    const { outbox } = createWorld({ synchronous: true })
    expect(() => outbox.publishSync(open(), checked({}))).toThrow(/asynchronous/)
    expect(() => createWorld().outbox.publishSync(open(), event('a'))).toThrow(/synchronous driver/)
  })
})

describe('a closed outbox', () => {
  it('refuses to publish and to begin', async () => {
    const { outbox, state } = createWorld()
    state.closed = true
    const closed = { code: 'POSTHASTE_CLOSED' }
    await expect(outbox.publish({ rows: [], active: true }, event('a'))).rejects.toMatchObject(closed)
    await expect(outbox.transaction(async () => undefined)).rejects.toMatchObject(closed)
    await expect(outbox.begin()).rejects.toMatchObject(closed)
  })
})

describe('text that is JSON already', () => {
  it('is stored byte for byte', async () => {
    const { outbox, database } = createWorld()
    await outbox.transaction((tx) => outbox.publish(tx, ofJson('a', '{"b":1.0, "a" : 1e2}')))
    expect(database.rows[0]?.event).toMatchObject({
      data: '{"b":1.0, "a" : 1e2}',
      contentType: 'application/json',
      size: 20,
    })
  })
})
