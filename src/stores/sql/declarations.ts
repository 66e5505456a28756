/** What a declaration changes in the registry of destinations; the same for every database. */
import type { DestinationDeclaration, RegisteredDestination, RegistryState } from '../../core/spi/index.ts'

/** Order and repetition of patterns mean nothing; without this two processes could outbid each other for ever. */
const normalised = (patterns: readonly string[]): string => JSON.stringify([...new Set(patterns)].sort())

export const changedDeclarations = (
  state: RegistryState,
  declared: readonly DestinationDeclaration[],
): readonly DestinationDeclaration[] => {
  const known = new Map(state.destinations.map(({ name, patterns }) => [name, normalised(patterns)]))
  return declared.filter(({ name, patterns }) => known.get(name) !== normalised(patterns))
}

/** A pattern that was there keeps its position, a new one counts from the last position there is. */
export const patternPositions = (
  state: RegistryState,
  { name, patterns }: DestinationDeclaration,
  lastSeq: bigint,
): readonly bigint[] => {
  const known = state.destinations.find((destination) => destination.name === name)
  return patterns.map((pattern) => positionOf(known, pattern) ?? lastSeq)
}

const positionOf = (known: RegisteredDestination | undefined, pattern: string): bigint | undefined =>
  known?.patternsFrom[known.patterns.indexOf(pattern)]

export const registryState = (destinations: readonly RegisteredDestination[]): RegistryState => ({
  version: destinations.reduce((highest, { version }) => Math.max(highest, version), 0),
  destinations,
})
