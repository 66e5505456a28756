/**
 * Which destinations hear of an event: the registry's and one's own together, so that a process that was
 * started before a new destination was declared still feeds it.
 */
import { createRouter, type Router } from '../policy/routing.ts'
import type { Logger, RegisteredDestination, Registry, RegistryState } from '../spi/index.ts'

export interface OwnDestination {
  readonly name: string
  readonly patterns: readonly string[]
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
