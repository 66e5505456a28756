/**
 * What publishers to brokers have in common: one connection, opened when something is first sent and opened anew after
 * it broke; no send that outlives its deadline; one message that the broker closes connections for is found and charged; an
 * end that waits for what is under way.
 *
 * Nobody reconnects in the background: the breaker of the destination decides when it is worth a try.
 */
import { isOutageError, isPermanentError, isRetryAfter, OutageError } from '../../core/errors.ts'
import type { OutgoingDelivery, Publisher, SendContext, SendResult } from '../../core/spi/index.ts'
import { type Attempt, Isolation, Suspects } from './isolation.ts'
import { closedError, failed } from './results.ts'
import { type Loss, within } from './within.ts'

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
    context: BrokerContext,
  ): Promise<readonly SendResult[]>
}

export interface BrokerContext extends SendContext {
  /** What is known of single deliveries before all is; looked at when the connection is lost or the time is over meanwhile. */
  readonly answered: (SendResult | undefined)[]
  /** To be called when another server may be the right one: the next send connects anew. What is under way goes on. */
  leave(): void
}

/**
 * The answers that came in time. Behind one of its key that was not accepted, as far as is known, nothing counts as
 * sent: that one would come after it.
 */
const inTime = (
  deliveries: readonly OutgoingDelivery[],
  answered: readonly (SendResult | undefined)[],
  outage: unknown,
): readonly SendResult[] => {
  const brokenKeys = new Set<string>()
  return deliveries.map(({ event: { key } }, at) => {
    const answer = key !== null && brokenKeys.has(key) ? undefined : answered[at]
    if (key !== null && answer?.ok !== true) brokenKeys.add(key)
    return answer ?? failed(outage)
  })
}

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/** A connection, and the news that it is gone: some clients never answer what was under way then. */
class Line<Connection> {
  readonly opened: Promise<Connection>
  isLost = false
  /** Nothing new is sent on it; the last of its sends ends it. */
  isLeft = false
  sends = 0
  readonly #listeners = new Set<() => void>()

  constructor(broker: Broker<Connection>, dropped: (line: Line<Connection>) => void) {
    this.opened = broker.open(() => {
      this.isLost = true
      for (const listener of this.#listeners) listener()
      dropped(this)
    })
    this.opened.catch(() => dropped(this))
  }

  readonly onLost: Loss = (listener) => {
    if (this.isLost) listener()
    else this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}

class BrokerPublisher<Connection> implements Publisher {
  readonly maxBatch: number
  readonly orderedPrefix: boolean
  readonly #broker: Broker<Connection>
  readonly #underWay = new Set<Promise<unknown>>()
  readonly #suspects = new Suspects()
  #line: Line<Connection> | null = null
  /** Ends when nobody looks for the one that a connection was closed for. */
  #isolating: Promise<unknown> | null = null
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
    await this.#untilNobodyIsolates(context)
    const said = await this.#attempt(deliveries, context)
    if (!said.lost) return said.results as readonly SendResult[]
    const isolation = new Isolation(deliveries, this.#suspects)
    return await this.#alone(() => isolation.run(said, (part) => this.#attempt(part, context)))
  }

  /** What is sent beside it would lose its connection too. Whoever has no time left for that has had nothing sent. */
  async #untilNobodyIsolates({ signal }: SendContext): Promise<void> {
    try {
      while (this.#isolating !== null) await within(this.#isolating, signal)
    } catch (error) {
      throw this.#asOutage(error)
    }
  }

  /** One after the other. */
  async #alone<T>(work: () => Promise<T>): Promise<T> {
    const mine = (this.#isolating ?? Promise.resolve()).then(work)
    const ended = mine.catch(() => undefined)
    this.#isolating = ended
    try {
      return await mine
    } finally {
      if (this.#isolating === ended) this.#isolating = null
    }
  }

  async #attempt(deliveries: readonly OutgoingDelivery[], { signal }: SendContext): Promise<Attempt> {
    this.#line ??= new Line(this.#broker, (line) => this.#drop(line))
    const line = this.#line
    const answered: (SendResult | undefined)[] = []
    let isSent = false
    line.sends += 1
    try {
      const connection = await within(line.opened, signal, line.onLost)
      isSent = true
      const results = await within(
        this.#broker.send(connection, deliveries, { signal, answered, leave: () => this.#leave(line) }),
        signal,
        line.onLost,
      )
      const hasOutages = results.some((result) => !result.ok && isOutageError(result.error))
      // Some clients say so of each message before they say it of the connection.
      if (hasOutages && !line.isLost) await nextTurn()
      if (!hasOutages) this.#suspects.answered(deliveries)
      return { results, lost: hasOutages && line.isLost }
    } catch (error) {
      // A connection that does not answer in time may still have all of it in hand.
      this.#drop(line)
      if (line.isLeft) void this.#end(line)
      if (signal.aborted && answered.length > 0)
        return { results: inTime(deliveries, answered, this.#asOutage(error)), lost: false }
      if (!isSent || !line.isLost || signal.aborted) throw this.#asOutage(error)
      // Answers that came with the end.
      await nextTurn()
      return { results: deliveries.map((_, at) => answered[at]), lost: true }
    } finally {
      line.sends -= 1
      if (line.isLeft && line.sends === 0) void this.#end(line)
    }
  }

  #leave(line: Line<Connection>): void {
    if (this.#line !== line) return
    this.#line = null
    line.isLeft = true
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
