import { describe, expect, it, vi } from 'vitest'
import { defineEvent } from './define-event.ts'
import { viewEvent } from './event-view.ts'
import type { EventRecord } from './model/event.ts'

const record = (change: Partial<EventRecord> = {}): EventRecord => ({
  id: '018f0000-0000-7000-8000-0000000000ab',
  type: 'order.placed',
  version: 1,
  key: null,
  aggregateType: null,
  aggregateId: null,
  tenantId: null,
  headers: {},
  contentType: 'application/json',
  data: '{"total":1}',
  size: 11,
  occurredAtMs: 5,
  createdAtMs: 6,
  replacesId: null,
  ...change,
})

describe('viewEvent', () => {
  it('parses the payload once, when it is read', () => {
    const parse = vi.spyOn(JSON, 'parse')
    const event = viewEvent(record())
    expect(parse).not.toHaveBeenCalled()
    expect(event.payload).toEqual({ total: 1 })
    expect(event.payload).toBe(event.payload)
    expect(parse).toHaveBeenCalledTimes(1)
    parse.mockRestore()
  })

  it('shows times as dates and the stored text as it is', () => {
    const event = viewEvent(record())
    expect([event.occurredAt.getTime(), event.createdAt.getTime()]).toEqual([5, 6])
    expect(event.occurredAt).toBe(event.occurredAt)
    expect(event.data).toBe('{"total":1}')
  })

  it('hands bytes over without copying them', () => {
    const data = new Uint8Array([1, 2])
    expect(viewEvent(record({ data, contentType: 'image/png' })).payload).toBe(data)
  })

  it('brings older versions up, one at a time, and leaves newer ones alone', () => {
    const placed = defineEvent('order.placed', {
      version: 3,
      upcast: {
        1: (old: { total: number }) => ({ cents: old.total * 100 }),
        2: (old: { cents: number }) => ({ amount: { cents: old.cents } }),
      },
    })
    expect(viewEvent(record(), placed)).toMatchObject({ version: 3, payload: { amount: { cents: 100 } } })
    expect(viewEvent(record({ version: 2, data: '{"cents":7}' }), placed).payload).toEqual({
      amount: { cents: 7 },
    })
    expect(viewEvent(record({ version: 4 }), placed)).toMatchObject({ version: 4, payload: { total: 1 } })
  })

  it('says which upcaster is missing', () => {
    const placed = defineEvent('order.placed', { version: 3, upcast: { 1: (old) => old } })
    expect(() => viewEvent(record(), placed).payload).toThrow(/no upcast from 2 to 3/)
  })

  it('says so when the stored text is not JSON, without quoting it', () => {
    const event = viewEvent(record({ data: 'secret' }))
    expect(() => event.payload).toThrow(/is not JSON/)
    expect(() => event.payload).not.toThrow(/secret/)
  })

  it('is complete when written as JSON', () => {
    expect(JSON.parse(JSON.stringify(viewEvent(record())))).toMatchObject({
      type: 'order.placed',
      occurredAt: '1970-01-01T00:00:00.005Z',
      payload: { total: 1 },
    })
  })
})
