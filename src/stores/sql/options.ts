/** Checks of options that several stores have, in the same words. */
import { InvalidOptionError } from '../../core/errors.ts'

export type Layout = 'plain' | 'partitioned'

export type PartitionPeriod = 'day' | 'month'

export const refuse = (option: string, value: unknown, text: string): never => {
  throw new InvalidOptionError(`${option} ${text}`, { option, value })
}

/**
 * An `@` behind the server's name was to end the user's name and password: what is before it would be taken for the
 * server, and be named in messages.
 */
const isMisread = ({ pathname, hash, search }: URL): boolean =>
  [pathname, hash].some((part) => part.includes('@')) ||
  // A path may have one in it, too. As it was written: whoever encoded it meant it.
  search
    .slice(1)
    .split('&')
    .some((parameter) => /^[^=]*@/.test(parameter) || /=[^/]*@[^@/]+\//.test(parameter))

/** Drivers do so, and their error would be about nothing that anybody knows. */
const canBeDecoded = ({ username, password }: URL): boolean => {
  try {
    decodeURIComponent(username + password)
    return true
  } catch {
    return false
  }
}

const isClear = (address: URL): boolean => !isMisread(address) && canBeDecoded(address)

/** The value is not repeated in the message: it may hold a password. A driver's own error might. */
export const checkParses = (option: string, value: string, address = value): string =>
  URL.canParse(address) && isClear(new URL(address))
    ? value
    : refuse(
        option,
        typeof value,
        'cannot be parsed: check the port, and encode special characters of the password',
      )

export const checkWhole = (option: string, value: unknown, low: number, high: number): number =>
  typeof value === 'number' && Number.isInteger(value) && value >= low && value <= high
    ? value
    : refuse(option, value, `must be a whole number from ${low} to ${high}`)

export const checkOneOf = <T extends string>(option: string, value: unknown, allowed: readonly T[]): T =>
  allowed.find((one) => one === value) ?? refuse(option, value, `must be one of ${allowed.join(', ')}`)

export const checkLayout = (value: unknown): Layout =>
  checkOneOf('layout', value ?? 'plain', ['plain', 'partitioned'])

export const checkPeriod = (value: unknown): PartitionPeriod =>
  checkOneOf('period', value ?? 'day', ['day', 'month'])

export const checkQueryTimeout = (value: unknown): number =>
  checkWhole('queryTimeoutMs', value ?? 30_000, 100, 600_000)

export const checkOnStatement = (
  value: ((sql: string) => void) | undefined,
): ((sql: string) => void) | null => {
  if (value !== undefined && typeof value !== 'function')
    refuse('onStatement', typeof value, 'must be a function of the text')
  return value ?? null
}

/** Either of the two says where the database is. */
export const checkEither = (store: string, pool: unknown, connectionString: unknown): void => {
  if ((pool === undefined) === (connectionString === undefined)) {
    throw new InvalidOptionError(`${store} needs either pool or connectionString`, {
      option: 'pool',
      value: typeof pool,
    })
  }
}
