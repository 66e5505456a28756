/**
 * What publishers to brokers have in common: one connection, opened when something is first sent and opened anew after
 * it broke; no send that outlives its deadline; an end that waits for what is under way.
 *
 * Nobody reconnects in the background: the breaker of the destination decides when it is worth a try.
 */
import { isOutageError, isPermanentError, isRetryAfter, OutageError } from '../../core/errors.ts'
import type { OutgoingDelivery, Publisher, SendContext, SendResult } from '../../core/spi/index.ts'
import { closedError } from './results.ts'

export interface Broker<Connection> {
  /** Named in messages. */
  readonly name: string
  readonly maxBatch: number
  readonly orderedPrefix?: boolean
  /** `broken` is to be called when the connection is no longer of any use. */
  open(broken: () => void): Promise<Connection>
  end(connection: Connection): Promise<unknown> | void
  /** A throw means that the broker could not be asked; what it said of a delivery is that delivery's result. */
  send(
    connection: Connection,
    deliveries: readonly OutgoingDelivery[],
    context: SendContext,
  ): Promise<readonly SendResult[]>
}

/** Resolves with the work, or rejects when the signal is aborted or the connection is lost before. */
const within = async <T>(work: Promise<T>, signal: AbortSignal, lost: Promise<never>): Promise<T> => {
  let stop: (() => void) | undefined
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
  // Whoever loses the race has nobody waiting for it any more.
  work.catch(() => undefined)
  try {
    return await Promise.race([work, aborted, lost])
  } finally {
    if (stop !== undefined) signal.removeEventListener('abort', stop)
  }
}

/** A connection, and the news that it is gone: some clients never answer what was under way then. */
class Line<Connection> {
  readonly opened: Promise<Connection>
  readonly lost: Promise<never>

  constructor(broker: Broker<Connection>, dropped: (line: Line<Connection>) => void) {
    let lose: (() => void) | undefined
    this.lost = new Promise<never>((_, reject) => {
      lose = () => reject(new Error('the connection was lost'))
    })
    this.lost.catch(() => undefined)
    this.opened = broker.open(() => {
      lose?.()
      dropped(this)
    })
    this.opened.catch(() => dropped(this))
  }
}

class BrokerPublisher<Connection> implements Publisher {
  readonly maxBatch: number
  readonly orderedPrefix: boolean
  readonly #broker: Broker<Connection>
  readonly #underWay = new Set<Promise<unknown>>()
  #line: Line<Connection> | null = null
  #closed = false

  constructor(broker: Broker<Connection>) {
    this.#broker = broker
    this.maxBatch = broker.maxBatch
    this.orderedPrefix = broker.orderedPrefix ?? false
  }

  async send(deliveries: readonly OutgoingDelivery[], context: SendContext): Promise<readonly SendResult[]> {
    if (this.#closed) throw closedError(`the publisher to ${this.#broker.name}`)
    const sending = this.#send(deliveries, context)
    this.#underWay.add(sending)
    try {
      return await sending
    } finally {
      this.#underWay.delete(sending)
    }
  }

  async close(): Promise<void> {
    this.#closed = true
    await Promise.allSettled(this.#underWay)
    const line = this.#line
    this.#line = null
    if (line !== null) await this.#end(line)
  }

  async #send(deliveries: readonly OutgoingDelivery[], context: SendContext): Promise<readonly SendResult[]> {
    const { signal } = context
    this.#line ??= new Line(this.#broker, (line) => this.#drop(line))
    const line = this.#line
    try {
      const connection = await within(line.opened, signal, line.lost)
      return await within(this.#broker.send(connection, deliveries, context), signal, line.lost)
    } catch (error) {
      // A connection that does not answer in time may still have all of it in hand.
      this.#drop(line)
      throw this.#asOutage(error)
    }
  }

  #drop(line: Line<Connection>): void {
    if (this.#line !== line) return
    this.#line = null
    void this.#end(line)
  }

  async #end({ opened }: Line<Connection>): Promise<void> {
    try {
      await this.#broker.end(await opened)
    } catch {
      // It was never open, or is gone already.
    }
  }

  #asOutage(error: unknown): unknown {
    if (isOutageError(error) || isPermanentError(error) || isRetryAfter(error)) return error
    const why = error instanceof Error ? error.message : String(error)
    return new OutageError(`${this.#broker.name} could not be asked: ${why}`, { cause: error })
  }
}

export const brokerPublisher = <Connection>(broker: Broker<Connection>): Publisher =>
  new BrokerPublisher(broker)
