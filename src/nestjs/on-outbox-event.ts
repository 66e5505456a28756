/**
 * `@OnOutboxEvent`: methods that hear events. What was declared is kept on the prototype by the method's name, not on
 * the function, so that decorators that replace the function may stand above or below.
 */
import type { AnyEventDefinition, EventDefinition, Stored } from '../core/define-event.ts'
import type { Listener, ListenerPattern } from '../core/listeners.ts'
import { refuseUnknown } from '../core/model/index.ts'
import { DEFAULT_NAME } from './tokens.ts'

export interface OnOutboxEventOptions {
  /** A declared destination, with its own state and its own retries. Default `local`. */
  readonly destination?: string
  /** The outbox with this name. Default: the one without. */
  readonly outbox?: string
}

/** As an object, so that the compiler misses none when an option is added. */
const OPTION_NAMES: ReadonlySet<string> = new Set(
  Object.keys({ destination: true, outbox: true } satisfies Record<keyof OnOutboxEventOptions, true>),
)

export interface Declared {
  readonly pattern: ListenerPattern | AnyEventDefinition
  readonly destination: string | null
  readonly outbox: string
}

/** Registered, because an application can load the ESM and the CommonJS build side by side. */
const LISTENERS = Symbol.for('posthaste.nestjs.listeners')

type Declarations = Map<string | symbol, Declared[]>

const ownDeclarations = (prototype: object): Declarations | undefined =>
  (Object.getOwnPropertyDescriptor(prototype, LISTENERS)?.value as Declarations | undefined) ?? undefined

type MethodOf<L extends Listener<never>> = <M extends L>(
  target: object,
  name: string | symbol,
  descriptor: TypedPropertyDescriptor<M>,
) => void

/** The method hears events of this type or pattern; with a definition the type of its payload is checked. */
export function OnOutboxEvent<Input, Output>(
  definition: EventDefinition<string, Input, Output>,
  options?: OnOutboxEventOptions,
): MethodOf<Listener<Stored<Output>>>
export function OnOutboxEvent(
  pattern: ListenerPattern,
  options?: OnOutboxEventOptions,
  // biome-ignore lint/suspicious/noExplicitAny: a pattern says nothing about payloads.
): MethodOf<Listener<any>>
export function OnOutboxEvent(
  pattern: ListenerPattern | AnyEventDefinition,
  options: OnOutboxEventOptions = {},
): (target: object, name: string | symbol) => void {
  refuseUnknown('@OnOutboxEvent', options, OPTION_NAMES)
  const { destination, outbox = DEFAULT_NAME } = options
  return (target, name) => {
    let all = ownDeclarations(target)
    if (all === undefined) {
      all = new Map()
      Object.defineProperty(target, LISTENERS, { value: all })
    }
    // Decorators are applied from the last to the first; people read from the first to the last.
    all.set(name, [{ pattern, destination: destination ?? null, outbox }, ...(all.get(name) ?? [])])
  }
}

/** What a class and those it extends declared; the nearest declaration of a method counts. */
export const declaredBy = (instance: object): Declarations => {
  const found: Declarations = new Map()
  for (
    let at: unknown = Object.getPrototypeOf(instance);
    at instanceof Object;
    at = Object.getPrototypeOf(at)
  ) {
    for (const [name, declared] of ownDeclarations(at) ?? []) {
      if (!found.has(name)) found.set(name, declared)
    }
  }
  return found
}
