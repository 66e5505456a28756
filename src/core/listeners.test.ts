import { describe, expect, expectTypeOf, it } from 'vitest'
import { z } from 'zod'
import { defineEvent } from './define-event.ts'
import { type Listener, ListenerRegistry } from './listeners.ts'

const named = (name: string): Listener => Object.defineProperty(() => name, 'name', { value: name })

const names = (registry: ListenerRegistry, type: string): string[] =>
  registry.listenersFor(type).map(({ listener }) => listener.name)

describe('ListenerRegistry', () => {
  it('finds exact listeners, then patterns, then those for any event, each in order of registration', () => {
    const registry = new ListenerRegistry()
    registry.onAny(named('any1'))
    registry.on('order.*', named('pattern1'))
    registry.on('order.placed', named('exact1'))
    registry.on('*', named('any2'))
    registry.on({ type: 'order.placed' }, named('exact2'))
    registry.on('order.*', named('pattern2'))
    expect(names(registry, 'order.placed')).toEqual([
      'exact1',
      'exact2',
      'pattern1',
      'pattern2',
      'any1',
      'any2',
    ])
    expect(names(registry, 'order.paid')).toEqual(['pattern1', 'pattern2', 'any1', 'any2'])
    expect(names(registry, 'user.created')).toEqual(['any1', 'any2'])
  })

  it('answers with the same immutable list until somebody registers', () => {
    const registry = new ListenerRegistry()
    registry.on('a', named('one'))
    const list = registry.listenersFor('a')
    expect(registry.listenersFor('a')).toBe(list)
    expect(Object.isFrozen(list)).toBe(true)
    const off = registry.on('a', named('two'))
    expect(list).toHaveLength(1)
    expect(names(registry, 'a')).toEqual(['one', 'two'])
    off()
    off()
    expect(names(registry, 'a')).toEqual(['one'])
  })

  it('knows the names that other outbox libraries use', () => {
    const registry = new ListenerRegistry().register('a', named('one')).registerAll(named('all'))
    expect(names(registry, 'a')).toEqual(['one', 'all'])
    expect(registry.patterns()).toEqual(['a', '*'])
  })

  it('remembers the definition, for its upcasters', () => {
    const placed = defineEvent('order.placed', { version: 2, upcast: { 1: (old) => old } })
    const registry = new ListenerRegistry()
    registry.on(placed, named('one'))
    expect(registry.listenersFor('order.placed')[0]?.definition).toBe(placed)
  })

  it('takes the same enum-like names as publish', () => {
    const registry = new ListenerRegistry()
    registry.on({ name: 'USER_CREATED' }, () => undefined)
    expect(registry.listenersFor('USER_CREATED')).toHaveLength(1)
  })

  it('refuses what is no listener and no pattern', () => {
    const registry = new ListenerRegistry()
    expect(() => registry.on('a', undefined as never)).toThrow(/function/)
    expect(() => registry.on('a*b', named('x'))).toThrow(/pattern/)
    expect(() => registry.on(undefined as never, named('x'))).toThrow(/pattern/)
  })

  it('does not remember types without bound', () => {
    const registry = new ListenerRegistry()
    registry.onAny(named('any'))
    for (let n = 0; n < 10_001; n++) registry.listenersFor(`type${n}`)
    expect(names(registry, 'type0')).toEqual(['any'])
  })

  it('types the payload by the definition, as it comes out of JSON', () => {
    const placed = defineEvent('order.placed', { schema: z.object({ id: z.string(), at: z.date() }) })
    const registry = new ListenerRegistry()
    registry.on(placed, (event, context) => {
      expectTypeOf(event.payload).toEqualTypeOf<{ id: string; at: string }>()
      expectTypeOf(context.attempt).toEqualTypeOf<number>()
      expectTypeOf(context.source).toEqualTypeOf<'hot' | 'cold'>()
    })
    registry.on('order.placed', (event) => expectTypeOf(event.payload).toEqualTypeOf<unknown>())
    registry.on<{ id: string }>('order.placed', (event) =>
      expectTypeOf(event.payload.id).toEqualTypeOf<string>(),
    )
  })
})
