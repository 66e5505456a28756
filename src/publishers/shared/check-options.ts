/** The options of a publisher: names that exist, values of the right kind and within their bounds, before anything is sent. */
import { InvalidOptionError, readGiven } from '../../core/errors.ts'
import { refuseUnknown, shownWithKind } from '../../core/model/index.ts'

export type Rule = { readonly optional?: boolean } & (
  | {
      readonly kind:
        | 'text'
        | 'flag'
        | 'function'
        | 'text or function'
        | 'object'
        | 'flag or object'
        | 'anything'
    }
  | { readonly kind: 'choice'; readonly of: readonly string[] }
  /** Whole. */
  | { readonly kind: 'number'; readonly from: number; readonly to: number }
)

const wanted = (rule: Rule): string => {
  switch (rule.kind) {
    case 'text':
      return 'a text that is not empty'
    case 'flag':
      return 'true or false'
    case 'function':
      return 'a function'
    case 'text or function':
      return 'a text that is not empty, or a function'
    case 'object':
      return 'an object'
    case 'flag or object':
      return 'true, false or an object'
    case 'anything':
      return 'there'
    case 'choice':
      return `one of ${rule.of.join(', ')}`
    case 'number':
      return `a whole number from ${rule.from} to ${rule.to}`
  }
}

const isObject = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const keeps = (rule: Rule, value: unknown): boolean => {
  switch (rule.kind) {
    case 'text':
      return typeof value === 'string' && value !== ''
    case 'flag':
      return typeof value === 'boolean'
    case 'function':
      return typeof value === 'function'
    case 'text or function':
      return typeof value === 'function' || (typeof value === 'string' && value !== '')
    case 'object':
      return isObject(value)
    case 'flag or object':
      return typeof value === 'boolean' || isObject(value)
    case 'anything':
      return value !== undefined && value !== null
    case 'choice':
      return typeof value === 'string' && rule.of.includes(value)
    case 'number':
      return Number.isInteger(value) && (value as number) >= rule.from && (value as number) <= rule.to
  }
}

/** The record names every option, so the compiler misses none when one is added. */
export const checkOptions = <Options extends object>(
  at: string,
  options: Options,
  rules: Readonly<Record<keyof Required<Options>, Rule>>,
): void =>
  readGiven(at, () => {
    const known = rules as Readonly<Record<string, Rule>>
    refuseUnknown(at, options, new Set(Object.keys(known)))
    for (const [option, rule] of Object.entries(known)) {
      const value = (options as Readonly<Record<string, unknown>>)[option]
      if (keeps(rule, value) || (value === undefined && rule.optional === true)) continue
      // A text in the place of credentials may be one of them.
      const isHidden = typeof value === 'string' && rule.kind.endsWith('object')
      // Only what is left out gets its default.
      const why =
        value === null && rule.optional === true
          ? 'must not be null; leave it out for the default'
          : `must be ${wanted(rule)}, not ${isHidden ? 'a text' : shownWithKind(value)}`
      throw new InvalidOptionError(`${at}: ${option} ${why}`, { option, value: isHidden ? 'string' : value })
    }
  })
