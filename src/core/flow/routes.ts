/**
 * Which destinations hear of an event: the registry's and one's own together, so that a process that was
 * started before a new destination was declared still feeds it.
 */
import { createRouter, type Router } from '../policy/routing.ts'
import type { Logger, RegisteredDestination, Registry, RegistryState } from '../spi/index.ts'

export interface OwnDestination {
  readonly name: string
  readonly patterns: readonly string[]
  /** How it begins where nobody knows it yet. */
  readonly paused?: boolean
}

export class Routes {
  readonly #own: readonly OwnDestination[]
  readonly #logger: Logger
  readonly #onSettings: (destination: RegisteredDestination) => void
  #state: RegistryState = { version: 0, destinations: [] }
  /** Ends with the last question to the registry. */
  #last: Promise<unknown> = Promise.resolve()
  /** A look that has not begun. */
  #next: Promise<RegistryState | null> | null = null
  #router: Router

  constructor(
    own: readonly OwnDestination[],
    logger: Logger,
    onSettings: (destination: RegisteredDestination) => void,
  ) {
    this.#own = own
    this.#logger = logger
    this.#onSettings = onSettings
    this.#router = createRouter(own)
  }

  get version(): number {
    return this.#state.version
  }

  get registered(): readonly RegisteredDestination[] {
    return this.#state.destinations
  }

  routes(type: string): readonly string[] {
    return this.#router.routes(type)
  }

  /**
   * Looks at the registry again, and answers with what it saw. A failure keeps what is known and answers null; the
   * reconciler adds what was missed. Calls that come before a look has begun share it.
   */
  refresh(registry: Registry): Promise<RegistryState | null> {
    this.#next ??= this.learn(() => {
      this.#next = null
      return registry.load()
    }).catch((error: unknown) => {
      this.#logger.log('warn', 'the registry of destinations could not be read; the known routes stay', {
        error: String(error),
      })
      return null
    })
    return this.#next
  }

  /**
   * Whoever serves a destination that was retired meanwhile, while it was starting or seemed to be gone, brings it back:
   * otherwise it would serve what nobody is told of.
   */
  async refreshServed(registry: Registry, isServed: (name: string) => boolean): Promise<void> {
    const state = await this.refresh(registry)
    const deaf = new Set(
      state?.destinations.filter(({ patterns }) => patterns.length === 0).map(({ name }) => name),
    )
    const again = this.#own
      .filter(({ name }) => deaf.has(name) && isServed(name))
      .map(({ name, patterns, paused = false }) => ({ name, patterns, paused }))
    if (again.length === 0) return
    const destinations = again.map(({ name }) => name)
    this.#logger.log('warn', 'destinations that this process serves were retired; they are declared again', {
      destinations,
    })
    await this.learn(() => registry.declare(again)).catch((error: unknown) =>
      this.#logger.log(
        'warn',
        'retired destinations could not be declared again; tried at the next renewal',
        {
          destinations,
          error: String(error),
        },
      ),
    )
  }

  /**
   * Asks the registry something and takes over the answer. One question at a time: of two on their way nobody can tell
   * which saw the younger state, and the older one would end a pause that has begun meanwhile.
   */
  learn(ask: () => Promise<RegistryState>): Promise<RegistryState> {
    const answer = this.#last.then(ask).then((state) => {
      this.#adopt(state)
      return state
    })
    this.#last = answer.catch(() => undefined)
    return answer
  }

  #adopt(state: RegistryState): void {
    const changed = state.version !== this.#state.version
    this.#state = state
    if (changed) this.#router = createRouter(merge(this.#own, state.destinations))
    for (const destination of state.destinations) this.#onSettings(destination)
  }
}

const merge = (
  own: readonly OwnDestination[],
  registered: readonly OwnDestination[],
): readonly OwnDestination[] => {
  const patterns = new Map<string, Set<string>>()
  for (const destination of [...own, ...registered]) {
    const known = patterns.get(destination.name) ?? new Set()
    for (const pattern of destination.patterns) known.add(pattern)
    patterns.set(destination.name, known)
  }
  return [...patterns].map(([name, known]) => ({ name, patterns: [...known] }))
}
