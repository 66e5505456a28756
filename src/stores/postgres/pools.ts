/**
 * Two pools, so that transactions of the application, and handlers that hold connections, cannot keep the store
 * from renewing its leases and writing what was delivered: it would lose its lanes while it waits.
 */
import { loadDriver, type PostgresConnection, type PostgresPool } from './driver.ts'
import { isOutOfTime } from './errors.ts'
import type { ResolvedPostgresOptions } from './options.ts'

type Pool = PostgresPool<PostgresConnection>

export interface Pools {
  readonly forStore: Pool
  readonly forTransactions: Pool
  /** Each once. */
  readonly all: readonly Pool[]
  /** Those that the store made, and ends. */
  readonly own: readonly Pool[]
}

/** Of a pool that the store makes from an address, this many connections at most are its own. */
const OWN_CONNECTIONS = 4
/** A place that takes the connection and says nothing is given up after this. */
const CONNECT_TIMEOUT_MS = 10_000

/** No timer of a process that goes on is so late, but for a very busy one. */
const LATE_MS = 100

interface PoolSettings {
  readonly connectionTimeoutMillis?: number
  readonly keepAlive?: boolean
}

/** What a pool of pg says of itself. */
interface KnownPool extends Pool {
  readonly options?: PoolSettings
  readonly Client?: unknown
}

/** How to reach the server: of somebody else's pool, as far as it says. */
export const settingsOf = (
  source: ResolvedPostgresOptions['source'] | { readonly pool: object },
): Readonly<Record<string, unknown>> => {
  if (!('pool' in source)) return { ...source }
  return ((source.pool as Partial<KnownPool>).options ?? {}) as Readonly<Record<string, unknown>>
}

export const connectTimeoutMs = ({ queryTimeoutMs }: ResolvedPostgresOptions): number =>
  Math.min(CONNECT_TIMEOUT_MS, queryTimeoutMs)

/**
 * A pool's time runs out while the process stands still, although what it waits for has come. Its timer is late then,
 * and it is asked once more.
 */
export const connectionOf = async (pool: Pool): Promise<PostgresConnection> => {
  const { options } = pool as KnownPool
  const since = performance.now()
  try {
    return await pool.connect()
  } catch (error) {
    const lateMs = performance.now() - since - (options?.connectionTimeoutMillis ?? 0)
    if (!isOutOfTime(error) || lateMs < LATE_MS) throw error
    return await pool.connect()
  }
}

/** The settings of a pool for one more connection, which does not wait for ever where the application's would. */
export const settingsLike = (options: PoolSettings, timeoutMs: number): object =>
  // The password is not enumerable, so that it is not printed by accident.
  Object.assign(Object.defineProperties({}, Object.getOwnPropertyDescriptors(options)), {
    connectionTimeoutMillis: options.connectionTimeoutMillis || timeoutMs,
    keepAlive: options.keepAlive ?? true,
  })

/** Another one with the same settings; null where the pool does not say how it was made, or pg is out of reach. */
const poolLike = async (
  { options, Client }: KnownPool,
  max: number,
  timeoutMs: number,
): Promise<Pool | null> => {
  if (typeof options !== 'object' || options === null) return null
  const driver = await loadDriver().catch(() => null)
  if (driver === null) return null
  const changes = { max, min: 0, ...(Client === undefined ? {} : { Client }) }
  return new driver.Pool(Object.assign(settingsLike(options, timeoutMs), changes))
}

const fromAddress = async (
  { connectionString, poolSize }: { readonly connectionString: string; readonly poolSize: number },
  timeoutMs: number,
): Promise<Pools> => {
  const { Pool } = await loadDriver()
  const ofSize = (max: number): Pool =>
    new Pool({ connectionString, max, connectionTimeoutMillis: timeoutMs, keepAlive: true })
  const reserved = Math.min(OWN_CONNECTIONS, Math.floor(poolSize / 2))
  const forStore = ofSize(reserved)
  const forTransactions = ofSize(poolSize - reserved)
  const all = [forStore, forTransactions]
  return { forStore, forTransactions, all, own: all }
}

export const openPools = async (options: ResolvedPostgresOptions): Promise<Pools> => {
  const { source } = options
  const timeoutMs = connectTimeoutMs(options)
  if (!('pool' in source)) return await fromAddress(source, timeoutMs)
  const given = source.pool as KnownPool
  const made = await poolLike(given, source.poolSize, timeoutMs)
  if (made === null) return { forStore: given, forTransactions: given, all: [given], own: [] }
  return { forStore: made, forTransactions: given, all: [made, given], own: [made] }
}
