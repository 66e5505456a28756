import { describe, expect, it } from 'vitest'
import { createTestOutbox } from '../testing/index.ts'
import type { Target } from './operator.ts'

const ID = '018f0000-0000-7000-8000-0000000000ab'
const refused = (text: string) =>
  expect.objectContaining({ code: 'POSTHASTE_INVALID_OPTION', message: expect.stringContaining(text) })

/** Two deliveries that wait, one of them with the key `a`. */
const waiting = async () => {
  const made = createTestOutbox({ destinations: { d: { events: ['*'] } } })
  await made.outbox.schema.migrate()
  await made.outbox.start()
  await made.outbox.transaction((tx) =>
    made.outbox.publishMany(tx, [
      { type: 't', payload: {}, key: 'a' },
      { type: 't', payload: {}, key: 'b' },
    ]),
  )
  return made
}

describe('an operator’s target', () => {
  it('with a name that is not known touches nothing', async () => {
    await using made = await waiting()
    const { operator } = made.outbox
    for (const kind of ['redrive', 'replay', 'discard'] as const) {
      await expect(operator[kind]({ destination: 'd', kye: 'a' } as Target)).rejects.toThrow(
        refused('target does not know "kye"; did you mean "key"?'),
      )
    }
    expect((await made.deliveries()).map(({ status }) => status)).not.toContain('discarded')
    expect(await operator.discard({ destination: 'd', key: 'a' })).toBe(1)
  })

  it.each([
    [null, 'target must be an object'],
    ['x', 'target must be an object'],
    [{}, 'name what to act on'],
    [{ destination: 'd', key: undefined }, 'target.key is undefined'],
    [{ deliveryIds: 'x' }, 'deliveryIds must be a list of UUIDs'],
    [{ deliveryIds: ['x'] }, 'deliveryIds[0] must be a UUID, not x'],
    [{ eventIds: [ID, 7] }, 'eventIds[1] must be a UUID, not 7'],
    [{ destination: 5 }, 'destination must be text'],
    [{ key: null }, 'key must be text, not null'],
    [{ destination: 'd', limit: 0 }, 'limit must be a whole number'],
    [{ destination: 'd', limit: 'all' }, 'limit must be a whole number'],
    [{ destination: 'd', limit: null }, 'limit must be a whole number'],
  ])('is refused when it is %j', async (target, text) => {
    await using made = createTestOutbox()
    await expect(made.outbox.operator.redrive(target as never)).rejects.toThrow(refused(text))
  })

  it('takes ids in either case', async () => {
    await using made = await waiting()
    const ids = (await made.deliveries()).map(({ id }) => id.toUpperCase())
    expect(await made.outbox.operator.discard({ deliveryIds: ids })).toBe(2)
  })
})

describe('other acts of an operator', () => {
  it.each([
    ['x', {}, 'deliveryId must be a UUID'],
    [ID, null, 'change must be an object'],
    [ID, { paylod: 1 }, 'did you mean "payload"?'],
  ])('edit(%j, %j) is refused', async (id, change, text) => {
    await using made = createTestOutbox()
    await expect(made.outbox.operator.edit(id, change as never)).rejects.toThrow(refused(text))
  })

  it.each([
    [{ inclDead: false }, 'did you mean "includeDead"?'],
    [{ includeDead: 'no' }, 'includeDead must be true or false'],
    [{ before: '2020-01-01' }, 'before must be a valid Date'],
    [{ before: new Date('x') }, 'before must be a valid Date'],
    [{ limit: '5' }, 'limit must be a whole number'],
    [null, 'cleanup must be an object'],
  ])('cleanup(%j) is refused', async (options, text) => {
    await using made = createTestOutbox()
    await expect(made.outbox.operator.cleanup(options as never)).rejects.toThrow(refused(text))
  })

  it('are refused when who and why, or the destination, cannot be recorded', async () => {
    await using made = createTestOutbox({ destinations: { d: { events: ['*'] } } })
    const { operator } = made.outbox
    await expect(operator.pause('d', { acter: 'alice' } as never)).rejects.toThrow(refused('"actor"'))
    await expect(operator.pause('d', { reason: 5 } as never)).rejects.toThrow(refused('reason must be text'))
    await expect(operator.pause(5 as never)).rejects.toThrow(refused('destination must be text'))
    await expect(operator.discard({ destination: 'd' }, 'alice' as never)).rejects.toThrow(refused('act'))
  })
})
