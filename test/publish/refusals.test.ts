/** What a call refuses beside wrong payloads: fields that nobody knows, and more than one statement can hold. */
import { describe, expect, it } from 'vitest'
import { type Draft, defineEvent, ofJson } from '../../src/core/define-event.ts'
import { createWorld } from './fixture.ts'

const MIB = 1_048_576
const placed = defineEvent('order.placed')
const misspelt = { idempotencykey: 'k' } as object

const refusalOf = async (drafts: readonly unknown[]) => {
  const { outbox, database } = createWorld()
  const error: unknown = await outbox
    .transaction((tx) => outbox.publishMany(tx, drafts as Draft[]))
    .catch((thrown: unknown) => thrown)
  expect(database.inserts).toHaveLength(0)
  return error
}

describe('a field that no event has', () => {
  it.each([
    ['a plain object', { type: 'order.placed', payload: {}, ...misspelt }],
    ['a definition’s draft', placed({}, misspelt)],
    ['JSON text', ofJson('order.placed', '{}', misspelt)],
  ])('is refused in %s', async (_, draft) => {
    expect(await refusalOf([{ type: 'fine', payload: {} }, draft])).toMatchObject({
      code: 'POSTHASTE_INVALID_EVENT',
      path: 'events[1].idempotencykey',
      detail: { reason: 'unknown-field' },
      message: expect.stringContaining('did you mean "idempotencyKey"?'),
    })
  })

  it('is none of those that drafts carry by themselves', async () => {
    const { outbox, database } = createWorld()
    const drafts = [placed({}), ofJson(placed, '{}'), { type: placed, payload: {}, version: 1 }]
    await outbox.transaction((tx) => outbox.publishMany(tx, drafts))
    expect(database.rows).toHaveLength(3)
  })
})

describe('a draft that throws when it is read', () => {
  const explosive = (): never => {
    throw new TypeError('a getter that throws')
  }

  it.each([
    ['a getter', Object.defineProperty({ payload: 1 }, 'type', { enumerable: true, get: explosive })],
    ['a proxy', new Proxy({}, { ownKeys: explosive })],
    ['a proxy as its type', { type: new Proxy({}, { get: explosive }), payload: 1 }],
  ])('is refused as such: %s', async (_, draft) => {
    expect(await refusalOf([draft])).toMatchObject({
      code: 'POSTHASTE_INVALID_EVENT',
      detail: { reason: 'threw' },
      cause: { message: 'a getter that throws' },
    })
  })

  it('is refused for a delay that cannot be made a text', async () => {
    const delayMs = { toString: explosive }
    expect(await refusalOf([{ type: 'a', payload: 1, delayMs }])).toMatchObject({
      detail: { reason: 'out-of-range' },
      message: expect.stringContaining('not an object'),
    })
  })
})

describe('the payloads of one call', () => {
  const megabyte = new Uint8Array(MIB)
  const draft = { type: 'blob', payload: megabyte, contentType: 'application/octet-stream' }

  it('are refused together before any SQL when they are too many bytes', async () => {
    expect(await refusalOf(Array.from({ length: 65 }, () => draft))).toMatchObject({
      code: 'POSTHASTE_INVALID_EVENT',
      path: 'events',
      detail: { reason: 'too-large' },
      message: expect.stringContaining('publish them in several calls'),
    })
  })

  it('may be 64 MiB', async () => {
    const { outbox, database } = createWorld()
    const drafts = Array.from({ length: 64 }, () => draft)
    await outbox.transaction((tx) => outbox.publishMany(tx, drafts))
    expect(database.rows).toHaveLength(64)
  })
})
