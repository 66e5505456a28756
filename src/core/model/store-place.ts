/**
 * Where a store keeps its tables, as far as it knows without asking; behind a registered symbol, because the application
 * may have loaded the other build of this package. For the command line alone.
 */
import { maskAddress, maskSecrets } from './mask-secrets.ts'

/** As addresses and the settings of pools name them. */
type ServerSettings = Readonly<Record<string, unknown>>

const PLACE = Symbol.for('posthaste.place')

/** `address` is for people, without secrets: a path, or host and database. */
export const attachPlace = (store: object, address: string): void => {
  Object.defineProperty(store, PLACE, { value: address })
}

/** Null for a store that does not say. */
export const placeOf = (store: object): string | null =>
  ((store as Record<symbol, unknown>)[PLACE] as string | undefined) ?? null

/**
 * Null where its parts are not clear: a password may hold what ends the name of a host, and without a scheme it is taken
 * for a path. The address of somebody else's pool was read by its driver alone, which takes a host behind the question
 * mark for the right one.
 */
const parsed = (address: string): URL | null => {
  if (!/^[^:/]+:\/\//.test(address) || !URL.canParse(address)) return null
  const url = new URL(address)
  const isElsewhere =
    url.host === '' || ['host', 'port', 'socketPath'].some((name) => url.searchParams.has(name))
  return isElsewhere || `${url.pathname}${url.search}${url.hash}`.includes('@') ? null : url
}

/** What is not said may come from variables of the environment, so nothing is made up. */
const hostAndDatabase = (settings: ServerSettings): string | null => {
  const { connectionString, host, port, socketPath, database } = settings
  if (typeof connectionString === 'string') {
    const url = parsed(connectionString)
    return url === null ? null : `${url.host}${url.pathname}`
  }
  const at = socketPath || host
  if (!at) return null
  const place = `${String(at)}${socketPath || !port ? '' : `:${port}`}/${database ?? ''}`
  // Some drivers take addresses apart without looking: part of a password is then the database.
  return place.includes('@') ? null : place
}

/** Its kind with host and database, as far as they are known: what messages say of a server. */
export const serverName = (kind: string, settings: ServerSettings): string => {
  const name = hostAndDatabase(settings)
  return name === null ? kind : `${kind} at ${name}`
}

/** Of a server, by its address or by the settings of a pool. */
export const serverAddress = (scheme: string, settings: ServerSettings): string => {
  const { connectionString } = settings
  // Without a scheme nobody can tell where a password begins.
  if (typeof connectionString === 'string' && connectionString.includes('://'))
    return maskSecrets(maskAddress(connectionString))
  const place = hostAndDatabase(settings)
  return place === null ? 'the pool that the code gave' : `${scheme}://${place}`
}
