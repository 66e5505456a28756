/** Settings that name destinations: each name must be one that somebody has, and holds only where it is. */
import { ERROR_CODES, OutboxError } from '../core/errors.ts'
import { ConfigError } from './errors.ts'
import type { Said } from './settings.ts'

/** An outbox, and what is said of it: by the file for it alone, or for all of them. */
export interface Addressed {
  readonly name: string
  readonly declared: readonly string[]
  readonly said: readonly Said[]
  readonly own: readonly Said[]
}

const parentOf = (key: string | undefined): string | undefined => key?.slice(0, key.lastIndexOf('.'))

const namedBy = ({ setting, destination, value }: Said): readonly string[] => {
  if (destination !== null) return [destination]
  return setting.name === 'serve' ? (value as readonly string[]) : []
}

const unknown = (missing: string, { destination, origin, key: written }: Said, text: string): Error => {
  // A name that somebody typed just now is not there; in a file it is a configuration that cannot work.
  if (origin.where === '--destinations')
    return new OutboxError(ERROR_CODES.unknownDestination, text, { destination: missing })
  const key = destination === null ? (written ?? 'serve') : (parentOf(written) ?? `destinations.${missing}`)
  return new ConfigError(`${key}: ${text} (${origin.where})`, { key, value: missing })
}

const listText = (names: readonly string[]): string =>
  names.length === 0 ? 'none is declared' : `there are: ${[...new Set(names)].join(', ')}`

/**
 * What is said for one outbox names its destinations; what is said for all of them, those of any. Where one was `chosen`
 * from several nobody knows the destinations of the others: only what was typed for it must be there.
 */
export const requireNamed = (outboxes: readonly Addressed[], chosen: boolean): void => {
  const anywhere = outboxes.flatMap(({ declared }) => declared)
  for (const { name, declared, said, own } of outboxes) {
    for (const one of said) {
      const isTyped = one.origin.kind === 'flag'
      const isOwn = own.includes(one) || (outboxes.length === 1 && (!chosen || isTyped))
      if (chosen && !isOwn) continue
      const known = isOwn ? declared : anywhere
      const missing = namedBy(one).find((named) => !known.includes(named))
      if (missing === undefined) continue
      const who = isOwn ? `outbox "${name}" has no` : 'no outbox has a'
      throw unknown(missing, one, `${who} destination "${missing}"; ${listText(known)}`)
    }
  }
}

/** Without what is for destinations of other outboxes. */
export const saidOf = ({ declared, said }: Addressed): readonly Said[] =>
  said.flatMap((one) => {
    const here = namedBy(one).filter((named) => declared.includes(named))
    if (one.destination !== null) return here.length === 0 ? [] : [one]
    return one.setting.name === 'serve' ? [{ ...one, value: here }] : [one]
  })
