/**
 * A name that nobody knows is a slip of the pen, and what was meant by it would silently not happen: a filter
 * that does not filter, a key that does not deduplicate. So it is refused, with the name that was probably meant.
 */
import { InvalidOptionError, readGiven } from '../errors.ts'

/** Names longer than this are nobody's slip; comparing them would only cost time. */
const LONGEST_NAME = 64

/** The first own name that is not among those; null when all are known. */
export const findUnknown = (given: object, names: ReadonlySet<string>): string | null => {
  for (const name of Object.keys(given)) if (!names.has(name)) return name
  return null
}

/** `; did you mean "key"?`, or the names there are when none is close. */
export const hintFor = (unknown: string, names: ReadonlySet<string>): string => {
  const near = nearestName(unknown, names)
  return near === null ? `; there are: ${[...names].join(', ')}` : meantText(near)
}

export const meantText = (name: string): string => `; did you mean "${name}"?`

/**
 * Throws unless `given` is an object whose names are all known.
 * @param at what the object is, as the user knows it: `createOutbox`, `destinations.mail`
 */
export const refuseUnknown = (at: string, given: unknown, names: ReadonlySet<string>): void =>
  readGiven(at, () => refuse(at, given, names))

const refuse = (at: string, given: unknown, names: ReadonlySet<string>): void => {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    const kind = given === null ? 'null' : Array.isArray(given) ? 'a list' : typeof given
    throw new InvalidOptionError(
      `${at} must be an object with any of ${[...names].join(', ')}; not ${kind}`,
      {
        option: at,
        value: given,
      },
    )
  }
  const unknown = findUnknown(given, names)
  if (unknown === null) return
  throw new InvalidOptionError(
    `${at} does not know "${unknown.slice(0, LONGEST_NAME)}"${hintFor(unknown, names)}`,
    // Not the value: under its right name it may be an address with a password.
    { option: unknown, value: typeof (given as Readonly<Record<string, unknown>>)[unknown] },
  )
}

/** Of a short name two letters are half of it, and what is left is another name. */
const mostEdits = ({ length }: string): number => (length <= 5 ? 1 : Math.max(2, Math.floor(length / 3)))

/** What was probably meant; null when none is close. */
export const nearestName = (unknown: string, names: ReadonlySet<string>): string | null => {
  if (unknown.length > LONGEST_NAME) return null
  let best: string | null = null
  let least = Number.POSITIVE_INFINITY
  for (const name of names) {
    const edits = distance(unknown.toLowerCase(), name.toLowerCase())
    if (edits < least && edits <= mostEdits(name)) {
      best = name
      least = edits
    }
  }
  return best
}

/** Letters to insert, remove, replace or swap with their neighbour: the slips that fingers make. */
const distance = (from: string, to: string): number => {
  let [before, row]: [number[], number[]] = [[], Array.from({ length: to.length + 1 }, (_, index) => index)]
  for (let i = 1; i <= from.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= to.length; j += 1) {
      const replaced = (row[j - 1] as number) + (from[i - 1] === to[j - 1] ? 0 : 1)
      const swaps = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1]
      const swapped = swaps ? (before[j - 2] as number) + 1 : replaced
      next.push(Math.min(replaced, swapped, (row[j] as number) + 1, (next[j - 1] as number) + 1))
    }
    before = row
    row = next
  }
  return row[to.length] as number
}
