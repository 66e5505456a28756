/**
 * LISTEN on a connection of its own, which connects again by itself; NOTIFY as a statement of its own, never in a
 * transaction of the application, where it would make commits wait for each other.
 */
import { createHash, randomUUID } from 'node:crypto'
import { type Cancel, type StoreContext, type Wakeup, within } from '../../core/spi/index.ts'
import type { PostgresDatabase } from './database.ts'
import {
  loadDriver,
  type PostgresConnection,
  type PostgresPool,
  type PostgresSoleConnection,
} from './driver.ts'
import { connectTimeoutMs, settingsLike } from './pools.ts'
import type { PostgresTables } from './tables.ts'

const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 30_000
/** A connection that died without a word is noticed after at most this. */
const CHECK_INTERVAL_MS = 30_000
const CHECK_TIMEOUT_MS = 10_000
const END_TIMEOUT_MS = 1_000
/** The server takes 8,000 bytes. Beyond that everybody is woken. */
const MAX_PAYLOAD_BYTES = 7_000

const CHANNEL_BYTES = 63

/** A name of its own per set of tables; one that is too long is replaced by its digest. */
export const channelOf = ({ names }: PostgresTables): string => {
  const channel = `posthaste_${names.schema}_${names.prefix}`
  if (channel.length <= CHANNEL_BYTES) return channel
  return `posthaste_${createHash('sha256').update(channel).digest('hex').slice(0, 40)}`
}

/** What a message says: from whom, and for which destinations; none mean all. */
interface Message {
  readonly from: string
  readonly destinations: readonly string[]
}

const decode = (payload: unknown): Message => {
  try {
    const { from, destinations } = JSON.parse(String(payload)) as Partial<Message>
    const names = Array.isArray(destinations) ? destinations.filter((one) => typeof one === 'string') : []
    return { from: String(from), destinations: names }
  } catch {
    // Somebody else's message on our channel is a reason to look, no more.
    return { from: '', destinations: [] }
  }
}

const encode = (from: string, destinations: readonly string[]): string => {
  const text = JSON.stringify({ from, destinations })
  return Buffer.byteLength(text) <= MAX_PAYLOAD_BYTES ? text : JSON.stringify({ from, destinations: [] })
}

/** Pools of pg know how to make one more connection of their kind. */
type ClientSource = PostgresPool<PostgresConnection> & {
  readonly Client?: new (options: object) => PostgresSoleConnection
  readonly options?: object
}

/** Null: this pool does not say how it connects. */
const newConnection = async (database: PostgresDatabase): Promise<PostgresSoleConnection | null> => {
  const { listen, source } = database.options
  const timeoutMs = connectTimeoutMs(database.options)
  if (listen === false) return null
  if (listen === null && 'pool' in source) {
    const { Client, options } = source.pool as ClientSource
    if (Client === undefined || options === undefined) return null
    return new Client(settingsLike(options, timeoutMs))
  }
  const { connectionString } = listen ?? (source as { readonly connectionString: string })
  const { Client } = await loadDriver()
  return new Client({ connectionString, keepAlive: true, connectionTimeoutMillis: timeoutMs })
}

class Listener {
  readonly #database: PostgresDatabase
  /** Kept, because the store may be closed before the listener. */
  readonly #context: StoreContext
  readonly #channel: string
  readonly #onMessage: (message: Message) => void
  #connection: PostgresSoleConnection | null = null
  #timer: Cancel | null = null
  #pauseMs = FIRST_PAUSE_MS
  /** Grows with every connection, so that what an old one has to say is not heard. */
  #attempt = 0
  #stopped = false

  constructor(database: PostgresDatabase, channel: string, onMessage: (message: Message) => void) {
    this.#database = database
    this.#context = database.context
    this.#channel = channel
    this.#onMessage = onMessage
  }

  /** Resolves after the first try, whatever came of it. */
  async start(): Promise<void> {
    await this.#connect()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#attempt += 1
    this.#timer?.()
    const connection = this.#connection
    this.#connection = null
    if (connection !== null) await this.#end(connection)
  }

  /** One that fell silent never says that it has ended. */
  async #end(connection: PostgresSoleConnection): Promise<void> {
    const ended = connection.end().catch(() => undefined)
    if (!(await within(this.#context.runtime, END_TIMEOUT_MS, ended))) connection.unref?.()
  }

  async #connect(): Promise<boolean> {
    const attempt = ++this.#attempt
    const lost = (error: unknown): void => this.#lost(attempt, error)
    try {
      const connection = await newConnection(this.#database)
      if (connection === null || this.#stopped) return false
      this.#connection = connection
      connection.on('error', lost)
      connection.on('end', () => lost(new Error('the connection ended')))
      connection.on('notification', ({ payload }: { readonly payload?: string }) =>
        this.#onMessage(decode(payload)),
      )
      await connection.connect()
      if (!(await this.#isDirect(connection))) return false
      await connection.query({ text: `LISTEN "${this.#channel}"`, query_timeout: CHECK_TIMEOUT_MS })
      this.#pauseMs = FIRST_PAUSE_MS
      this.#checkLater(connection, lost)
      return true
    } catch (error) {
      lost(error)
      return false
    }
  }

  /** A pooler would hand the subscription to a server process that it shares with others. */
  async #isDirect(connection: PostgresSoleConnection): Promise<boolean> {
    const answer = await connection.query({
      text: 'SELECT pg_backend_pid() AS pid',
      query_timeout: CHECK_TIMEOUT_MS,
    })
    const [row] = (answer as { readonly rows: readonly { readonly pid: unknown }[] }).rows
    if (Number(row?.pid) === connection.processID) return true
    this.#context.logger.log(
      'warn',
      'LISTEN needs a direct connection, and there is a pooler in between: set the option listen of postgresStore. Until then processes find new events by polling',
    )
    await this.stop()
    return false
  }

  #checkLater(connection: PostgresSoleConnection, lost: (error: unknown) => void): void {
    if (this.#connection !== connection) return
    const check = (): void => {
      connection
        .query({ text: 'SELECT 1', query_timeout: CHECK_TIMEOUT_MS })
        .then(() => this.#checkLater(connection, lost), lost)
    }
    this.#timer = this.#context.runtime.schedule(CHECK_INTERVAL_MS, check, { background: true })
  }

  /** Whatever is said in the meantime is missed, so everything is looked at after the next connection. */
  #lost(attempt: number, error: unknown): void {
    if (this.#stopped || attempt !== this.#attempt) return
    this.#attempt += 1
    this.#timer?.()
    this.#connection?.end().catch(() => undefined)
    this.#connection = null
    this.#context.logger.log('warn', 'the connection that listens for wake-ups was lost; polling goes on', {
      error: String(error),
    })
    const pauseMs = this.#pauseMs * (0.5 + this.#context.runtime.random())
    this.#pauseMs = Math.min(LONGEST_PAUSE_MS, this.#pauseMs * 2)
    const again = async (): Promise<void> => {
      if (await this.#connect()) this.#onMessage({ from: '', destinations: [] })
    }
    this.#timer = this.#context.runtime.schedule(pauseMs, () => void again(), { background: true })
  }
}

export const wakeupRole = (database: PostgresDatabase, t: PostgresTables): Wakeup => {
  const channel = channelOf(t)
  const self = randomUUID()
  return {
    async listen(wake) {
      const listener = new Listener(database, channel, ({ from, destinations }) => {
        if (from !== self) wake(destinations)
      })
      await listener.start()
      return () => listener.stop()
    },
    async notify(destinations) {
      await database.rows('SELECT pg_notify($1, $2)', [channel, encode(self, destinations)])
    },
  }
}
