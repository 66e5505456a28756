/**
 * The package `mysql2`, seen through the few members that we use. Nothing is imported statically: it is an
 * optional peer, and an application that passes its own pool has loaded it already.
 */
import { ERROR_CODES, StoreError } from '../../core/errors.ts'

/** What the server answers to a statement without rows. */
export interface MysqlHeader {
  readonly affectedRows: number
  readonly serverStatus: number
}

export interface MysqlQuery {
  readonly sql: string
  readonly values?: readonly unknown[]
  readonly timeout?: number
  readonly rowsAsArray?: boolean
}

/** A connection of `mysql2/promise`. */
export interface MysqlConnection {
  query(query: MysqlQuery): Promise<readonly [unknown, unknown]>
  execute(sql: string, values?: readonly unknown[]): Promise<readonly [unknown, unknown]>
  release?(): void
  destroy(): void
}

/** A pool of `mysql2/promise`; `Connection` is what its `getConnection` gives. */
export interface MysqlPool<Connection extends object> {
  getConnection(): Promise<Connection>
  end(): Promise<void>
}

/** Where a pool connects to; it keeps this two levels down, in the pool that it wraps. */
interface WrappedPool {
  readonly pool?: { readonly config?: { readonly connectionConfig?: Readonly<Record<string, unknown>> } }
}

interface MysqlDriver {
  createPool(options: object): MysqlPool<MysqlConnection>
}

export const loadDriver = async (): Promise<MysqlDriver> => {
  // A variable keeps bundlers and the type checker from resolving a package that may not be there.
  const specifier: string = 'mysql2/promise'
  let module: { readonly default?: MysqlDriver } & MysqlDriver
  try {
    module = (await import(specifier)) as typeof module
  } catch (cause) {
    throw new StoreError(
      ERROR_CODES.missingPeer,
      'The package mysql2 could not be loaded. Install it: npm install mysql2',
      { cause },
    )
  }
  return module.default ?? module
}

/** What says where to connect and as whom; everything else of a connection is the store's own choice. */
const WHERE = [
  'host',
  'port',
  'localAddress',
  'socketPath',
  'user',
  'password',
  'password2',
  'password3',
  'passwordSha1',
  'database',
  'ssl',
  'stream',
  'authPlugins',
  'enableCleartextPlugin',
  'insecureAuth',
  'connectTimeout',
  'compress',
] as const

/** Null when the pool does not say, because it is not one of `mysql2/promise`. */
export const settingsOf = (pool: object): Readonly<Record<string, unknown>> | null => {
  const config = (pool as WrappedPool).pool?.config?.connectionConfig
  if (config === undefined) return null
  return Object.fromEntries(
    WHERE.filter((name) => config[name] !== undefined && config[name] !== false).map((name) => [
      name,
      config[name],
    ]),
  )
}

/** What mysql2 sends through. */
export interface MysqlSocket {
  once?(event: 'close', listener: () => void): unknown
  destroy?(): unknown
  /** The process may end although the socket has not. */
  unref?(): unknown
}

/** The connection that the one with promises wraps. A pool wraps the same one anew each time it hands it out. */
interface InnerConnection {
  readonly clientEncoding?: unknown
  readonly stream?: MysqlSocket
}

export const innerOf = (connection: MysqlConnection): InnerConnection =>
  (connection as { readonly connection?: InnerConnection }).connection ?? (connection as InnerConnection)

/** Does the driver send every character as it is? */
export const carriesUnicode = (connection: MysqlConnection): boolean =>
  innerOf(connection).clientEncoding === 'utf8'

/** Is the server inside a transaction, as it said with its last answer? */
const IN_TRANSACTION = 1

export const isHeader = (answer: unknown): answer is MysqlHeader =>
  typeof answer === 'object' &&
  answer !== null &&
  !Array.isArray(answer) &&
  typeof (answer as Partial<MysqlHeader>).serverStatus === 'number'

export const saysInTransaction = ({ serverStatus }: MysqlHeader): boolean =>
  (serverStatus & IN_TRANSACTION) !== 0
