/** Code in this process that hears events. One registry per destination; the outbox has one for `local`. */
import { type AnyEventDefinition, type EventDefinition, isDefinition, type Stored } from './define-event.ts'
import { InvalidOptionError } from './errors.ts'
import type { DeliverySource } from './model/delivery.ts'
import type { OutboxEvent } from './model/event.ts'
import { type EventPattern, patternText } from './options.ts'
import { compilePattern, matches, type Pattern } from './policy/routing.ts'

export interface ListenerContext {
  /** 1 for the first attempt of this run. */
  readonly attempt: number
  /** Aborted at the timeout or hard deadline, and when a bounded drain runs out. */
  readonly signal: AbortSignal
  /** `hot`: straight after commit, from memory; `cold`: read from the database. */
  readonly source: DeliverySource
  readonly destination: string
  readonly deliveryId: string
  /** Above 1 when an operator sent it again. */
  readonly run: number
}

/** Whatever it returns is awaited; a throw or rejection is a failed attempt. */
export type Listener<T = unknown> = (event: OutboxEvent<T>, context: ListenerContext) => unknown

export interface RegisteredListener {
  readonly pattern: string
  /** Set when it was registered with a definition, whose upcasters then apply. */
  readonly definition: AnyEventDefinition | null
  // biome-ignore lint/suspicious/noExplicitAny: the definition checked the type where it was registered.
  readonly listener: Listener<any>
}

/** An exact type, a pattern such as `order.*`, or something that has a type. */
export type ListenerPattern = EventPattern

/** Types seen are remembered with their listeners; beyond this many somebody makes types up. */
const CACHE_LIMIT = 10_000

export class ListenerRegistry {
  readonly #exact: RegisteredListener[] = []
  readonly #patterned: { readonly entry: RegisteredListener; readonly compiled: Pattern }[] = []
  readonly #any: RegisteredListener[] = []
  readonly #cache = new Map<string, readonly RegisteredListener[]>()

  /** Returns a function that takes the listener away again. */
  on<Input, Output>(
    definition: EventDefinition<string, Input, Output>,
    listener: Listener<Stored<Output>>,
  ): () => void
  on<T = unknown>(pattern: ListenerPattern, listener: Listener<T>): () => void
  // biome-ignore lint/suspicious/noExplicitAny: the overloads above are the types that callers see.
  on(pattern: ListenerPattern | AnyEventDefinition, listener: Listener<any>): () => void {
    const text = patternText(pattern)
    if (typeof listener !== 'function') {
      throw new InvalidOptionError(`the listener for ${String(text)} must be a function`, {
        option: 'listener',
        value: listener,
      })
    }
    const entry = Object.freeze({
      pattern: text,
      definition: isDefinition(pattern) ? pattern : null,
      listener,
    })
    const compiled = compilePattern(text)
    if (compiled.kind === 'any') return this.#add(this.#any, entry)
    if (compiled.kind === 'prefix') return this.#add(this.#patterned, { entry, compiled })
    return this.#add(this.#exact, entry)
  }

  /** Every event of the destination; runs after the listeners of its type. */
  onAny<T = unknown>(listener: Listener<T>): () => void {
    return this.on('*', listener)
  }

  /** The name that other outbox libraries use for `on`. */
  register<T = unknown>(pattern: ListenerPattern, listener: Listener<T>): this {
    this.on(pattern, listener)
    return this
  }

  /** The name that other outbox libraries use for `onAny`. */
  registerAll<T = unknown>(listener: Listener<T>): this {
    this.onAny(listener)
    return this
  }

  /** Exact ones, then patterns, then those for any event; each group in the order of registration. */
  listenersFor(type: string): readonly RegisteredListener[] {
    const known = this.#cache.get(type)
    if (known !== undefined) return known
    const found = Object.freeze([
      ...this.#exact.filter((entry) => entry.pattern === type),
      ...this.#patterned.filter(({ compiled }) => matches(compiled, type)).map(({ entry }) => entry),
      ...this.#any,
    ])
    if (this.#cache.size >= CACHE_LIMIT) this.#cache.clear()
    this.#cache.set(type, found)
    return found
  }

  /** What was registered, once each; what `local` declares when nobody declared it. */
  patterns(): readonly string[] {
    const entries = [...this.#exact, ...this.#patterned.map(({ entry }) => entry), ...this.#any]
    return [...new Set(entries.map((entry) => entry.pattern))]
  }

  #add<T>(group: T[], entry: T): () => void {
    group.push(entry)
    this.#cache.clear()
    return () => {
      const index = group.indexOf(entry)
      if (index >= 0) group.splice(index, 1)
      this.#cache.clear()
    }
  }
}
