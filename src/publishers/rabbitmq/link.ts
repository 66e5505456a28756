/** A connection to RabbitMQ, the channels that are open in it, and whether the broker takes anything now. */

export interface Returned {
  readonly fields: { readonly replyCode: number; readonly replyText: string }
  readonly properties: { readonly messageId?: string }
}

/** What of amqplib is used. */
interface AmqpChannel {
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'drain', listener: () => void): unknown
  on(event: 'return', listener: (message: Returned) => void): unknown
  prependListener(event: 'close', listener: () => void): unknown
  publish(
    exchange: string,
    routingKey: string,
    body: Buffer,
    properties: object,
    confirmed: (error: Error | null) => void,
  ): boolean
  close(): Promise<unknown>
}

export interface Connection {
  on(event: 'error' | 'close' | 'unblocked', listener: () => void): unknown
  on(event: 'blocked', listener: (reason: string) => void): unknown
  createConfirmChannel(options: { readonly highWaterMark: number }): Promise<AmqpChannel>
  close(): Promise<void>
}

export interface AmqpModule {
  connect(url: string, options: object): Promise<Connection>
}

const nothing = (): void => undefined

/** How long a broker may take to say goodbye. */
const GOODBYE_MS = 1_000

/** The client copies bodies into frames; so many may wait for the socket, and as many again behind them. */
const CHANNEL_OPTIONS = { highWaterMark: 256 }

export class Channel {
  /** Why it is closed, or null. */
  closedFor: Error | null = null
  /**
   * A message could not be written. Some versions of the client count it all the same, and would take the answer to each
   * message after it for the answer to the one before. So nothing is written after it.
   */
  isSpoilt = false
  readonly returned = new Map<string, Returned>()
  readonly #channel: AmqpChannel
  #wake: () => void = nothing

  constructor(channel: AmqpChannel) {
    this.#channel = channel
    channel.on('error', (error) => {
      this.closedFor = error
    })
    // Before the client tells everybody who waits for a confirmation: that is no answer of the broker.
    channel.prependListener('close', () => {
      this.closedFor ??= new Error('the channel was closed')
      this.#wake()
    })
    channel.on('drain', () => this.#wake())
    channel.on('return', (message) => {
      this.returned.set(message.properties.messageId ?? '', message)
    })
  }

  get isUsable(): boolean {
    return this.closedFor === null && !this.isSpoilt
  }

  readonly publish: AmqpChannel['publish'] = (...message) => {
    try {
      return this.#channel.publish(...message)
    } catch (error) {
      this.isSpoilt = true
      throw error
    }
  }

  async close(): Promise<void> {
    try {
      await this.#channel.close()
    } catch {
      // It is closed already, or goes with its connection.
    }
  }

  /** Resolves when the socket has taken what was written, or never will. */
  async drained(): Promise<void> {
    if (this.closedFor !== null) return
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
  }
}

/**
 * Each send has a channel for itself: what the broker closes it for concerns nobody else. Channels that stay open are
 * used again, so there are never more of them than sends at a time.
 */
export class Link {
  /** Why the broker takes nothing now, or null. */
  blocked: string | null = null
  readonly #connection: Connection
  readonly #abandon: () => void
  readonly #idle: Channel[] = []

  constructor(connection: Connection, abandon: () => void) {
    this.#connection = connection
    this.#abandon = abandon
    connection.on('blocked', (reason) => {
      this.blocked = reason
    })
    connection.on('unblocked', () => {
      this.blocked = null
    })
  }

  async withChannel<T>(work: (channel: Channel) => Promise<T>): Promise<T> {
    const channel =
      this.#idle.pop() ?? new Channel(await this.#connection.createConfirmChannel(CHANNEL_OPTIONS))
    try {
      return await work(channel)
    } finally {
      channel.returned.clear()
      if (channel.isUsable) this.#idle.push(channel)
      else if (channel.closedFor === null) void channel.close()
    }
  }

  async end(): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const enough = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, GOODBYE_MS)
    })
    await Promise.race([this.#connection.close().catch(nothing), enough])
    clearTimeout(timer)
    this.#abandon()
  }
}
