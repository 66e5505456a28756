import { maskSecrets } from './mask-secrets.ts'

/** A value in a message; some objects cannot be made a string at all, and a revoked proxy cannot even be asked. */
export const shown = (value: unknown): string => {
  if (typeof value === 'function') return 'a function'
  if (typeof value !== 'object' || value === null)
    return maskSecrets(String(value).slice(0, 1_000)).slice(0, 100)
  try {
    return Array.isArray(value) ? 'a list' : 'an object'
  } catch {
    return 'an object'
  }
}

/** The same where no string is right: `1000` and `"1000"` must not look alike. */
export const shownWithKind = (value: unknown): string =>
  typeof value === 'string' ? `the string "${shown(value)}"` : shown(value)
