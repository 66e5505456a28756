/**
 * Where a store keeps its tables, as far as it knows without asking; behind a registered symbol, because the application
 * may have loaded the other build of this package. For the command line alone.
 */
import { maskAddress, maskSecrets } from './mask-secrets.ts'

export interface StorePlaceInfo {
  /** For people, without secrets: a path, or host and database. */
  readonly address: string
  /** Whoever only looks sets this, and a file that is missing is not made. */
  mustExist: boolean
}

const PLACE = Symbol.for('posthaste.place')

export const attachPlace = (store: object, address: string): StorePlaceInfo => {
  const place: StorePlaceInfo = { address, mustExist: false }
  Object.defineProperty(store, PLACE, { value: place })
  return place
}

/** Null for a store that does not say. */
export const placeOf = (store: object): StorePlaceInfo | null =>
  ((store as Record<symbol, unknown>)[PLACE] as StorePlaceInfo | undefined) ?? null

/** Of a server, by its address or by the settings of a pool. */
export const serverAddress = (scheme: string, settings: Readonly<Record<string, unknown>>): string => {
  const { connectionString, host, port, socketPath, database } = settings
  if (typeof connectionString === 'string') return maskSecrets(maskAddress(connectionString))
  const at = host ?? socketPath
  if (at === undefined && database === undefined) return 'the pool that the code gave'
  const text = `${scheme}://${at ?? 'localhost'}${port === undefined ? '' : `:${port}`}/${database ?? ''}`
  return maskSecrets(text)
}
