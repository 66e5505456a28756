/**
 * The destinations of a run, and who hears what. Three end at the recording sink: one takes batches, one takes single
 * sends, one has listeners. A real broker hears everything.
 */
import { isBroker } from '../brokers/kit.ts'

export const DESTINATIONS: readonly string[] = ['batch', 'single', 'listener']

const HEARS: Readonly<Record<string, readonly string[]>> = {
  batch: ['order.placed', 'mail.sent'],
  single: ['mail.sent'],
  listener: ['order.placed'],
}

const ALL: readonly string[] = [...new Set(Object.values(HEARS).flat())]

export const typesOf = (destination: string): readonly string[] =>
  isBroker(destination) ? ALL : (HEARS[destination] ?? [])

/** Types that somebody hears, when these are the destinations. */
export const typesFor = (destinations: readonly string[]): string[] => [
  ...new Set(destinations.flatMap(typesOf)),
]

export const destinationsOf = (type: string, destinations: readonly string[]): string[] =>
  destinations.filter((each) => typesOf(each).includes(type))
