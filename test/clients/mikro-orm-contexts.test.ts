/** `orm.em`, which stands for another entity manager in each request and in each transaction. */
import { type MikroORM, RequestContext } from '@mikro-orm/core'
import { describe, expect, it, onTestFinished } from 'vitest'
import { mikroOrmTransactions } from '../../src/clients/mikro-orm.ts'
import { type Draft, defineEvent } from '../../src/index.ts'
import { openDatabase } from './databases.ts'
import { mikroOrmOn } from './libraries/mikro-orm.ts'
import { openOutbox } from './outbox-on.ts'

const event: Draft = { type: 'a', payload: 1 }

const openOrm = async () => {
  const database = await openDatabase('postgres')
  const orm = await mikroOrmOn(database)
  const { outbox, stored } = await openOutbox(database, mikroOrmTransactions(orm))
  onTestFinished(async () => {
    await outbox.close()
    await orm.close()
    await database.dispose()
  })
  return { orm, outbox, stored }
}

/** As a server handles a request. */
const request = <T>(orm: MikroORM, fn: () => Promise<T>): Promise<T> =>
  RequestContext.create(orm.em, () => orm.em.transactional(fn))

const signal = () => {
  let give = (): void => {}
  const given = new Promise<void>((resolve) => {
    give = resolve
  })
  return { give, given }
}

describe('orm.em', () => {
  it('is the entity manager of the transaction around it, and refused without one', async () => {
    const { orm, outbox, stored } = await openOrm()
    await request(orm, () => outbox.publish(orm.em, event))
    await outbox.transaction(() => outbox.publish(orm.em, event))
    expect(await stored()).toBe(2)
    const refused = { code: 'POSTHASTE_NO_TRANSACTION' }
    await expect(outbox.publish(orm.em, event)).rejects.toMatchObject(refused)
    const without = RequestContext.create(orm.em, () => outbox.publish(orm.em, event))
    await expect(without).rejects.toMatchObject(refused)
    const undone = request(orm, async () => {
      await outbox.publish(orm.em, event)
      throw new Error('no')
    })
    await expect(undone).rejects.toThrow('no')
    expect(await stored()).toBe(2)
  })

  it('of one request does not wait for that of another', async () => {
    const { orm, outbox, stored } = await openOrm()
    const [first, second] = [signal(), signal()]
    const same = { ...event, idempotencyKey: 'same' }
    const one = request(orm, async () => {
      await outbox.publish(orm.em, same)
      first.give()
      await second.given
      await outbox.publish(orm.em, event)
    })
    const two = request(orm, async () => {
      await first.given
      // The database lets it wait for the end of the first request.
      const published = outbox.publish(orm.em, same)
      second.give()
      await published
    })
    await Promise.all([one, two])
    expect(await stored()).toBe(2)
  })

  it('of one request does not end with that of another', async () => {
    const { orm, outbox, stored } = await openOrm()
    const [published, checking, ended] = [signal(), signal(), signal()]
    const checkedLate = defineEvent('late', {
      schema: {
        '~standard': {
          version: 1,
          vendor: 'test',
          validate: async (value: unknown) => {
            checking.give()
            await ended.given
            return { value }
          },
        },
      },
    })
    const one = request(orm, async () => {
      await outbox.publish(orm.em, event)
      published.give()
      await checking.given
    })
    const two = request(orm, async () => {
      await published.given
      await outbox.publish(orm.em, checkedLate({}))
    })
    await one
    ended.give()
    await two
    expect(await stored()).toBe(2)
  })
})
