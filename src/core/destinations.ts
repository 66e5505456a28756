/**
 * The destinations of this process: what it declares, what it serves, and who listens. Destinations are
 * declared, never guessed: only `local` takes its patterns from the listeners that were registered until start.
 */
import type { AnyEventDefinition } from './define-event.ts'
import { ERROR_CODES, OutboxError } from './errors.ts'
import { type Listener, type ListenerPattern, ListenerRegistry } from './listeners.ts'
import { patternText, type ResolvedDestination, type ResolvedOptions, resolveDestination } from './options.ts'
import { compilePattern, matches } from './policy/routing.ts'
import type { RegisteredDestination, Registry } from './spi/index.ts'

/** The destination of listeners that were registered without naming one. */
export const LOCAL = 'local'

export class Destinations {
  readonly #options: ResolvedOptions
  readonly #listeners = new Map<string, ListenerRegistry>()

  constructor(options: ResolvedOptions) {
    this.#options = options
  }

  registry(name: string): ListenerRegistry {
    let registry = this.#listeners.get(name)
    if (registry === undefined) {
      registry = new ListenerRegistry()
      this.#listeners.set(name, registry)
    }
    return registry
  }

  declared(): ResolvedDestination[] {
    const declared = [...this.#options.destinations.values()]
    const local = this.#listeners.get(LOCAL)?.patterns() ?? []
    if (!this.#options.destinations.has(LOCAL) && local.length > 0) {
      const { outside } = this.#options
      const options = { events: local, ...outside['*'], ...outside[LOCAL] }
      declared.push(resolveDestination(LOCAL, options, this.#options))
    }
    return declared
  }

  /** A listener destination is served where somebody listens; otherwise it waits for a process that does. */
  served(): ResolvedDestination[] {
    const { serve } = this.#options
    const unheard = this.unheard()
    return this.declared().filter(({ name }) =>
      serve === null ? !unheard.includes(name) : serve.includes(name),
    )
  }

  /** Those with neither a publisher nor a listener here: whoever serves them here spends attempts for nothing. */
  unheard(): readonly string[] {
    return this.declared()
      .filter(({ name, to }) => to === null && (this.#listeners.get(name)?.patterns().length ?? 0) === 0)
      .map(({ name }) => name)
  }

  require(name: string): ResolvedDestination {
    const found = this.declared().find((destination) => destination.name === name)
    if (found !== undefined) return found
    const known = this.declared().map((destination) => destination.name)
    throw new OutboxError(
      ERROR_CODES.unknownDestination,
      `there is no destination "${name}"; declared are: ${known.join(', ') || 'none'}. ` +
        'Add it to the destinations of createOutbox',
      { destination: name },
    )
  }

  /** The one that is meant when none is named. */
  only(): ResolvedDestination {
    const [first, ...others] = this.declared()
    if (first !== undefined && others.length === 0) return first
    throw new OutboxError(
      ERROR_CODES.unknownDestination,
      `name the destination: ${this.declared().length} are declared, so it cannot be left out`,
    )
  }

  /** `on(pattern, fn)` or `on(destination, pattern, fn)`. */
  on(args: readonly unknown[], started: boolean): () => void {
    const named = args.length >= 3
    const name = named ? String(args[0]) : LOCAL
    this.#requireAll(args)
    const pattern = args[named ? 1 : 0] as ListenerPattern | AnyEventDefinition
    const listener = args[named ? 2 : 1] as Listener
    if (name !== LOCAL || this.#options.destinations.has(LOCAL)) this.#requireListeners(name)
    if (started) this.#requireHeard(name, patternText(pattern))
    else if (named && name !== LOCAL) this.#requireOverlap(name, patternText(pattern))
    return this.registry(name).on(pattern, listener)
  }

  /**
   * With one of three forgotten, the destination looks like a pattern: without the function the definition is taken for a
   * listener, and without the event `local` would wait for events of a type that nobody publishes.
   */
  #requireAll(args: readonly unknown[]): void {
    const [name, second] = args
    if (args.length !== 2 || typeof name !== 'string' || typeof second !== 'function') return
    const destination = this.#options.destinations.get(name)
    if (destination === undefined) return
    const isDefinition = typeof (second as { type?: unknown }).type === 'string'
    const whereItIs =
      destination.to === null
        ? `on("${name}", event, listener) listens at destination "${name}", to "*" for all that it hears`
        : `destination "${name}" has a publisher and takes no listeners`
    throw new OutboxError(
      ERROR_CODES.invalidOption,
      isDefinition
        ? `on("${name}", …) lacks the listener: on(destination, event, listener)`
        : `on("${name}", listener) lacks the event: ${whereItIs}. Events of a type "${name}" are heard by on("${LOCAL}", "${name}", listener)`,
      { destination: name },
    )
  }

  /** A listener for what its destination never hears would wait for ever. */
  #requireOverlap(name: string, pattern: string): void {
    const { patterns } = this.require(name)
    const overlap = (a: string, b: string): boolean => a === b || matches(compilePattern(a), b)
    if (patterns.some((heard) => overlap(heard, pattern) || overlap(pattern, heard))) return
    throw new OutboxError(
      ERROR_CODES.invalidOption,
      `"${pattern}" is not among the events of destination "${name}" (${patterns.join(', ')}); add it there`,
      { destination: name, pattern },
    )
  }

  #requireListeners(name: string): void {
    if (this.require(name).to === null) return
    throw new OutboxError(
      ERROR_CODES.invalidOption,
      `destination "${name}" has a publisher, so it takes no listeners; declare another destination for them`,
      { destination: name },
    )
  }

  /** After start the routes are fixed; a listener outside of them would wait for ever without anybody noticing. */
  #requireHeard(name: string, pattern: string): void {
    const served = this.served().find((destination) => destination.name === name)
    const heard =
      served?.patterns.some((it) => it === pattern || matches(compilePattern(it), pattern)) ?? false
    if (heard) return
    throw new OutboxError(
      ERROR_CODES.invalidOption,
      `"${pattern}" is not among what this process declared for "${name}" at start(): ` +
        'register listeners before start(), or add the event to the destination',
      { destination: name, pattern },
    )
  }
}

/** One that some process declared once, whether this one does or not. */
export const findRegistered = async (registry: Registry, name: string): Promise<RegisteredDestination> => {
  const { destinations } = await registry.load()
  const found = destinations.find((destination) => destination.name === name)
  if (found !== undefined) return found
  const known = destinations.map((destination) => destination.name).join(', ') || 'none'
  throw new OutboxError(
    ERROR_CODES.notFound,
    `there is no destination "${name}"; registered are: ${known}. A process that declares it registers it when it starts`,
    { destination: name },
  )
}
