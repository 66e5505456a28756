import { describe, expect, it } from 'vitest'
import type { EventRecord } from '../../core/model/index.ts'
import { eventDecoder } from './event-row.ts'

const decode = eventDecoder({ id: String, ms: Number, data: (payload) => String(payload) })

const ROW = ['-', 'e1', 'tick', null, 'k', null, null, null, '5', '6', null, '2', null, null, '{}', null]

describe('a row with an event', () => {
  it('becomes an event that looks like a literal, because some libraries refuse anything else', () => {
    const expected: EventRecord = {
      id: 'e1',
      type: 'tick',
      version: 1,
      key: 'k',
      aggregateType: null,
      aggregateId: null,
      tenantId: null,
      occurredAtMs: 5,
      createdAtMs: 6,
      replacesId: null,
      size: 2,
      contentType: 'application/json',
      headers: Object.create(null),
      data: '{}',
    }
    expect(decode(ROW, 1)).toStrictEqual({ event: expected, problem: null })
  })

  it('whose headers are no object is reported and not thrown', () => {
    expect(decode(ROW.with(13, '[1]'), 1)).toEqual({
      event: null,
      problem: 'the event cannot be decoded: headers are not an object',
    })
  })
})
