/** What is said to a client beside the handle of its library: names that exist, and values of the right kind. */
import { InvalidOptionError } from '../../core/errors.ts'
import { refuseUnknown, shownWithKind } from '../../core/model/index.ts'

const CAPTURE_NAMES: ReadonlySet<string> = new Set(['capture'])

const refuse = (option: string, value: unknown, text: string): never => {
  throw new InvalidOptionError(`${option} ${text}`, { option, value })
}

/** Of the libraries that know which entities they write. */
export const readCapture = (at: string, options: { readonly capture?: boolean }): boolean => {
  refuseUnknown(at, options, CAPTURE_NAMES)
  const { capture = false } = options
  return typeof capture === 'boolean'
    ? capture
    : refuse('capture', capture, `must be true or false, not ${shownWithKind(capture)}`)
}

/** A duration that is handed on to the library, in ms. */
export const checkDuration = (option: string, value: unknown): void => {
  if (value === undefined || (typeof value === 'number' && value >= 0)) return
  refuse(option, value, `must be a number of 0 or more, in ms, not ${shownWithKind(value)}`)
}

/** For clients without options: whoever gives some expects them to do something. */
export const refuseOptions = (at: string, options: unknown, instead: string): void => {
  if (options !== undefined) refuse(at, options, `takes no options; ${instead}`)
}
