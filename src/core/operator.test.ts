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
    [{ since: '2026-01-01' }, 'since must be a valid Date'],
    [{ destination: 'd', until: new Date('x') }, 'until must be a valid Date'],
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

  it.each([
    [{}, 'names nothing to change'],
    [{ concurrency: undefined }, 'names nothing to change'],
    [null, 'tune must be an object'],
    [{ concurency: 1 }, 'did you mean "concurrency"?'],
    [{ paused: true }, 'tune does not know "paused"'],
    [{ concurrency: 0 }, 'concurrency must be a whole number from 1 to 1000'],
    [{ concurrency: 1_001 }, 'concurrency must be a whole number from 1 to 1000'],
    [{ concurrency: '8' }, 'concurrency must be a whole number'],
    [{ batchSize: 10_001 }, 'batchSize must be a whole number from 1 to 10000'],
    [{ pollBatchSize: 0.5 }, 'pollBatchSize must be a whole number from 1 to 10000'],
    [{ pollIntervalMs: 9 }, 'pollIntervalMs must be a whole number from 10 to 3600000'],
    [{ ratePerSecond: 0 }, 'ratePerSecond must be a number from 0.001'],
  ])('tune(%j) is refused', async (settings, text) => {
    await using made = createTestOutbox({ destinations: { d: { events: ['*'] } } })
    await made.outbox.start()
    await expect(made.outbox.operator.tune('d', settings as never)).rejects.toThrow(refused(text))
    expect(await made.outbox.inspect.audit()).toEqual([])
  })

  const since = new Date(0)
  it.each([
    [{}, 'since must be a valid Date'],
    [null, 'backfill must be an object'],
    [{ since: 0 }, 'since must be a valid Date'],
    [{ since, until: 'now' }, 'until must be a valid Date'],
    [{ since, types: [] }, 'types must be a list'],
    [{ since, types: ['a.*.b'] }, 'An event pattern may have'],
    [{ since, types: ['other'] }, '"other" is not among what "d" hears: t.*'],
    [{ since, ratePerSecond: 0 }, 'ratePerSecond must be a number'],
    [{ since, limit: 0 }, 'limit must be a whole number'],
    [{ since, onProgress: 1 }, 'onProgress must be a function'],
    [{ since, signal: {} }, 'signal must be the signal of an AbortController'],
    [{ since, form: 1 }, 'backfill does not know "form"'],
  ])('backfill(%j) is refused', async (options, text) => {
    await using made = createTestOutbox({ destinations: { d: { events: ['t.*'] } } })
    await made.outbox.start()
    await expect(made.outbox.operator.backfill('d', options as never)).rejects.toThrow(refused(text))
  })

  it('are refused when who and why, or the destination, cannot be recorded', async () => {
    await using made = createTestOutbox({ destinations: { d: { events: ['*'] } } })
    const { operator } = made.outbox
    await expect(operator.pause('d', { acter: 'alice' } as never)).rejects.toThrow(refused('"actor"'))
    await expect(operator.pause('d', { reason: 5 } as never)).rejects.toThrow(refused('reason must be text'))
    await expect(operator.pause(5 as never)).rejects.toThrow(refused('destination must be text'))
    await expect(operator.discard({ destination: 'd' }, 'alice' as never)).rejects.toThrow(refused('act'))
    const paced = (act: object) => operator.discard({ destination: 'd' }, act)
    await expect(paced({ dryRun: 'yes' })).rejects.toThrow(refused('dryRun must be true or false'))
    await expect(paced({ ratePerSecond: -1 })).rejects.toThrow(refused('ratePerSecond must be a number'))
  })
})
