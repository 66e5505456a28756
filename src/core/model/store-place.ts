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

/** Its password may hold what ends the name of a host, so that part of it would be taken for that. */
const IS_UNCLEAR = /^[^:]+:\/\/[^/?#]*[/?#].*@/

const hostAndDatabase = ({
  connectionString,
  host,
  port,
  socketPath,
  database,
}: ServerSettings): string | null => {
  if (typeof connectionString === 'string') {
    if (IS_UNCLEAR.test(connectionString) || !URL.canParse(connectionString)) return null
    const { host: at, pathname } = new URL(connectionString)
    return maskSecrets(`${at}${pathname}`)
  }
  const at = host ?? socketPath
  if (at === undefined && database === undefined) return null
  return maskSecrets(`${at ?? 'localhost'}${port === undefined ? '' : `:${port}`}/${database ?? ''}`)
}

/** Its kind with host and database, as far as they are known: what messages say of a server. */
export const serverName = (kind: string, settings: ServerSettings): string => {
  const name = hostAndDatabase(settings)
  return name === null ? kind : `${kind} at ${name}`
}

/** Of a server, by its address or by the settings of a pool. */
export const serverAddress = (scheme: string, settings: ServerSettings): string => {
  const { connectionString, host, port, socketPath, database } = settings
  if (typeof connectionString === 'string') return maskSecrets(maskAddress(connectionString))
  const at = host ?? socketPath
  if (at === undefined && database === undefined) return 'the pool that the code gave'
  const text = `${scheme}://${at ?? 'localhost'}${port === undefined ? '' : `:${port}`}/${database ?? ''}`
  return maskSecrets(text)
}
