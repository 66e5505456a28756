/** A configuration that cannot work: which key, which value, what is allowed, and where it was said. */
import { ERROR_CODES, OutboxError } from '../core/errors.ts'
import { maskSecrets } from '../core/model/mask-secrets.ts'
import { shownWithKind } from '../core/model/shown.ts'

export class ConfigError extends OutboxError {
  constructor(
    message: string,
    detail: {
      readonly key?: string
      readonly value?: unknown
      readonly file?: string
      readonly cause?: unknown
    } = {},
  ) {
    const { value, ...rest } = detail
    const shownValue = value === undefined ? {} : { value: maskSecrets(String(value)) }
    super(ERROR_CODES.invalidConfig, maskSecrets(message), { ...rest, ...shownValue })
  }
}

/** `pollInterval must be a duration …, not "soon" (POSTHASTE_POLL_INTERVAL)` */
export const refuseValue = (key: string, value: unknown, allowed: string, where: string): never => {
  throw new ConfigError(`${key} must be ${allowed}, not ${shownWithKind(value)} (${where})`, { key, value })
}

/** `pollInterval` and `pollIntervalMs` beside each other: nobody knows which of them is meant. */
export const requireOne = (other: string | undefined, name: string, where: string): void => {
  if (other === undefined) return
  throw new ConfigError(`${other} and ${name} are the same setting; keep one of them (${where})`, {
    key: name,
  })
}

/** What another library says, on one line: tsx has a line for every mistake, and Node lists who asked for a module that is missing. */
export const onOneLine = (message: string): string => {
  const [about = ''] = message.split('\nRequire stack:')
  return about.trim().replaceAll(/\s*\n\s*/g, ' ')
}
