/**
 * Where a store keeps its tables, as far as it knows without asking; behind a registered symbol, because the application
 * may have loaded the other build of this package. For the command line alone.
 */
import { maskAddress, maskSecrets } from './mask-secrets.ts'

const PLACE = Symbol.for('posthaste.place')

/** `address` is for people, without secrets: a path, or host and database. */
export const attachPlace = (store: object, address: string): void => {
  Object.defineProperty(store, PLACE, { value: address })
}

/** Null for a store that does not say. */
export const placeOf = (store: object): string | null =>
  ((store as Record<symbol, unknown>)[PLACE] as string | undefined) ?? null

/** Of a server, by its address or by the settings of a pool. */
export const serverAddress = (scheme: string, settings: Readonly<Record<string, unknown>>): string => {
  const { connectionString, host, port, socketPath, database } = settings
  if (typeof connectionString === 'string') return maskSecrets(maskAddress(connectionString))
  const at = host ?? socketPath
  if (at === undefined && database === undefined) return 'the pool that the code gave'
  const text = `${scheme}://${at ?? 'localhost'}${port === undefined ? '' : `:${port}`}/${database ?? ''}`
  return maskSecrets(text)
}
