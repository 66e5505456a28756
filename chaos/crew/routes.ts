/** The destinations of a run, and who hears what: one takes batches, one takes single sends, one has listeners. */

export const DESTINATIONS: readonly string[] = ['batch', 'single', 'listener']

const HEARS: Readonly<Record<string, readonly string[]>> = {
  batch: ['order.placed', 'mail.sent'],
  single: ['mail.sent'],
  listener: ['order.placed'],
}

export const typesOf = (destination: string): readonly string[] => HEARS[destination] ?? []

/** Types that somebody hears, when these are the destinations. */
export const typesFor = (destinations: readonly string[]): string[] => [
  ...new Set(destinations.flatMap(typesOf)),
]

export const destinationsOf = (type: string, destinations: readonly string[]): string[] =>
  destinations.filter((each) => typesOf(each).includes(type))
