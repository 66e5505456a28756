import * as v from 'valibot'
import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { defineEvent, type EventDraft, isDefinition, ofJson, type Stored } from './define-event.ts'
import { typeOnly } from './standard-schema.ts'

interface Order {
  readonly orderId: string
  readonly total: number
}

describe('defineEvent', () => {
  it('makes frozen drafts that carry their definition', () => {
    const placed = defineEvent('order.placed', { version: 2, schema: typeOnly<Order>() })
    const payload = { orderId: 'o1', total: 1 }
    const draft = placed(payload, { key: 'k', delayMs: 5 })
    expect(draft).toMatchObject({ type: 'order.placed', version: 2, payload, key: 'k', delayMs: 5 })
    expect(draft.definition).toBe(placed)
    expect(Object.isFrozen(draft)).toBe(true)
    expect(isDefinition(placed)).toBe(true)
    expect([placed.type, placed.version, placed.name]).toEqual(['order.placed', 2, 'order.placed'])
  })

  it('decides type and version, whatever the options say', () => {
    const placed = defineEvent('order.placed', { version: 2 })
    expect(placed({}, { version: 9, type: 'other' } as never)).toMatchObject({
      type: 'order.placed',
      version: 2,
    })
  })

  it('refuses definitions that cannot work', () => {
    expect(() => defineEvent('')).toThrow(/empty/)
    expect(() => defineEvent('order.*')).toThrow(/many types/)
    expect(() => defineEvent('a', { version: 0 })).toThrow(/version/)
    expect(() => defineEvent('a', { version: 1.5 })).toThrow(/version/)
    expect(() => defineEvent('a', { version: 2, upcast: { 2: () => 1 } })).toThrow(/below 2/)
    expect(() => defineEvent('a', { version: 2, upcast: { 1: 'x' as never } })).toThrow(/function/)
  })

  it.each([
    [{ versionn: 2 }, 'did you mean "version"?'],
    [{ schema: 5 }, 'schema must be a Standard Schema'],
    [{ schema: {} }, 'schema must be a Standard Schema'],
    [{ key: 5 }, 'key must be a function'],
    [{ aggregateId: 'orderId' }, 'aggregateId must be a function'],
    [{ aggregate: 5 }, 'aggregate must be a name'],
    [{ contentType: 5 }, 'contentType must be a media type'],
    [{ upcast: 'x' }, 'upcast must be an object'],
    [null, 'must be an object'],
    ['x', 'must be an object'],
  ])('refuses options that cannot work: %j', (options, text) => {
    expect(() => defineEvent('order.placed', options as never)).toThrow(
      expect.objectContaining({
        code: 'POSTHASTE_INVALID_OPTION',
        message: expect.stringMatching(/^defineEvent\("order\.placed"\).*/),
      }),
    )
    expect(() => defineEvent('order.placed', options as never)).toThrow(text)
  })

  it('takes JSON text for a type, an enum-like name or a definition', () => {
    const placed = defineEvent('order.placed', { version: 3 })
    expect(ofJson(placed, '{}')).toMatchObject({ type: 'order.placed', version: 3, json: '{}' })
    expect(ofJson({ name: 'ORDER_PLACED' }, '{}', { key: 'k' })).toEqual({
      type: 'ORDER_PLACED',
      json: '{}',
      key: 'k',
    })
  })
})

describe('types of definitions', () => {
  it('infer the payload from a schema, with its input for drafts and its output for functions', () => {
    const placed = defineEvent('order.placed', {
      schema: z.object({ orderId: z.string(), total: z.coerce.number<string>() }),
      key: (order) => {
        expectTypeOf(order).toEqualTypeOf<{ orderId: string; total: number }>()
        return order.orderId
      },
    })
    expectTypeOf(placed.type).toEqualTypeOf<'order.placed'>()
    expectTypeOf(placed).parameter(0).toEqualTypeOf<{ orderId: string; total: string }>()
    expectTypeOf(placed({ orderId: '', total: '1' })).toEqualTypeOf<
      EventDraft<'order.placed', { orderId: string; total: string }>
    >()
    // @ts-expect-error the payload has the wrong type
    placed({ orderId: 1, total: '' })
  })

  it('work with other schema libraries', () => {
    const placed = defineEvent('order.placed', { schema: v.object({ orderId: v.string() }) })
    expectTypeOf(placed).parameter(0).toEqualTypeOf<{ orderId: string }>()
  })

  it('work without a schema, in either form', () => {
    const named = defineEvent<'order.placed', Order>('order.placed', { key: (order) => order.orderId })
    expectTypeOf(named).parameter(0).toEqualTypeOf<Order>()
    const typed = defineEvent('order.placed', { schema: typeOnly<Order>(), key: (order) => order.orderId })
    expectTypeOf(typed).parameter(0).toEqualTypeOf<Order>()
    expectTypeOf(typed.type).toEqualTypeOf<'order.placed'>()
    const open = defineEvent('order.placed')
    expectTypeOf(open).parameter(0).toEqualTypeOf<unknown>()
  })

  it('say what is left of a payload after its way through JSON', () => {
    expectTypeOf<Stored<Order>>().toEqualTypeOf<Order>()
    expectTypeOf<Stored<{ at: Date; list: Date[]; maybe?: number }>>().toEqualTypeOf<{
      at: string
      list: string[]
      maybe?: number
    }>()
    expectTypeOf<Stored<Uint8Array>>().toEqualTypeOf<Uint8Array>()
    expectTypeOf<Stored<unknown>>().toEqualTypeOf<unknown>()
  })
})
