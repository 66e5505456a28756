/**
 * Which destinations hear of an event. A pattern is one of three things, and none of them needs a regular
 * expression, so no event type can make matching slow:
 *
 * - `order.placed`: that type;
 * - `order.*`: every type with something after `order.`, however many segments, but not `order` itself;
 * - `*`: every type.
 */
import { InvalidOptionError } from '../errors.ts'
import { checkName, NAME_LIMITS } from '../model/headers.ts'

export type Pattern =
  | { readonly kind: 'exact'; readonly type: string }
  /** `prefix` ends in the dot. */
  | { readonly kind: 'prefix'; readonly prefix: string }
  | { readonly kind: 'any' }

const ANY: Pattern = Object.freeze({ kind: 'any' })

export function compilePattern(pattern: string): Pattern {
  if (pattern === '*') return ANY
  const problem = findProblem(pattern)
  if (problem !== undefined) {
    throw new InvalidOptionError(`An event pattern ${problem}.`, { option: 'events', value: pattern })
  }
  if (pattern.endsWith('.*')) return Object.freeze({ kind: 'prefix', prefix: pattern.slice(0, -1) })
  return Object.freeze({ kind: 'exact', type: pattern })
}

function findProblem(pattern: unknown): string | undefined {
  if (typeof pattern !== 'string' || pattern === '') return 'must be a non-empty string'
  const stem = pattern.endsWith('.*') ? pattern.slice(0, -2) : pattern
  if (stem === '') return 'must have a name before ".*"; use "*" for every event'
  if (stem.includes('*')) return 'may have "*" alone or at its end after a dot, as in "order.*"'
  if (stem.length > NAME_LIMITS.type) return `must have at most ${NAME_LIMITS.type} characters`
  if (/[\p{Cc}\p{Surrogate}]/u.test(stem))
    return 'must not contain control characters or half a surrogate pair'
  return undefined
}

export function matches(pattern: Pattern, type: string): boolean {
  switch (pattern.kind) {
    case 'exact':
      return pattern.type === type
    case 'prefix':
      return type.length > pattern.prefix.length && type.startsWith(pattern.prefix)
    case 'any':
      return true
  }
}

/** The longer the prefix, the closer it describes a type; an exact pattern is closest. */
export function specificity(pattern: Pattern): number {
  if (pattern.kind === 'any') return 0
  return pattern.kind === 'prefix' ? pattern.prefix.length : Number.POSITIVE_INFINITY
}

export interface RoutedDestination {
  readonly name: string
  readonly patterns: readonly string[]
}

export interface Router {
  /** Names of the destinations that hear of the type, in the order of their declaration, each once. */
  routes(type: string): readonly string[]
}

/** Types that carry an id (`order.4711.placed`) would fill an unbounded cache; these are the bound. */
const MAX_CACHED_TYPES = 10_000

export function createRouter(destinations: readonly RoutedDestination[]): Router {
  const seen = new Set<string>()
  const compiled = destinations.map(({ name, patterns }) => {
    checkName('destination', name)
    if (seen.has(name)) {
      throw new InvalidOptionError(`The destination "${name}" is declared twice.`, {
        option: 'destinations',
        value: name,
      })
    }
    seen.add(name)
    return { name, patterns: patterns.map(compilePattern) }
  })
  const cache = new Map<string, readonly string[]>()

  const find = (type: string): readonly string[] => {
    const hearing = compiled.filter(({ patterns }) => patterns.some((pattern) => matches(pattern, type)))
    return Object.freeze(hearing.map(({ name }) => name))
  }

  return {
    routes(type) {
      const cached = cache.get(type)
      if (cached !== undefined) return cached
      // Starting over costs a few microseconds per type in use, and keeps a hit as cheap as one lookup.
      if (cache.size >= MAX_CACHED_TYPES) cache.clear()
      const found = find(type)
      cache.set(type, found)
      return found
    },
  }
}
