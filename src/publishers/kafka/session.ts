/**
 * One producer at a time, and one send at a time on it: the client numbers records when a send begins and counts them when
 * it ends, so two at once would have the same numbers, and the broker would take the second for a repetition of the first.
 * So what is to be sent meanwhile waits, and goes together.
 */
import type { OutgoingDelivery } from '../../core/spi/index.ts'
import type { BrokerContext } from '../shared/broker.ts'
import type { KafkaModule, Producer } from './client.ts'

/** One of those that wait for their turn. */
export interface Waiting {
  readonly deliveries: readonly OutgoingDelivery[]
  readonly context: BrokerContext
}

interface Turn<T> extends Waiting {
  resolve(value: T): void
  reject(error: unknown): void
}

/** Of deliveries that go together. */
const MOST_TOGETHER = 2_000

const nothing = (): void => undefined

/** `T` is what a turn ends with for each of those that shared it. */
export class Session<T> {
  readonly #module: KafkaModule
  readonly #settings: object
  readonly #broken: () => void
  #producer: Producer | null = null
  readonly #work: (session: Session<T>, together: readonly Waiting[]) => Promise<readonly T[]>
  #waiting: Turn<T>[] = []
  #busy = false
  #turns = new Map<string, number>()
  #ended = false
  readonly #openedAt = performance.now()

  /** `broken` is told when a connection was closed while something was under way. */
  constructor(
    module: KafkaModule,
    settings: object,
    work: (session: Session<T>, together: readonly Waiting[]) => Promise<readonly T[]>,
    broken: () => void,
  ) {
    this.#module = module
    this.#settings = settings
    this.#work = work
    this.#broken = broken
  }

  get ageMs(): number {
    return performance.now() - this.#openedAt
  }

  lose(): void {
    this.#broken()
  }

  get producer(): Producer {
    if (this.#ended) throw new Error('the connection was given up')
    this.#producer ??= this.#create()
    return this.#producer
  }

  /**
   * For everything after a failure of any kind: the numbers of a producer go on from what was last accepted, and nobody
   * knows that now. A new one begins anew, also after the broker has fenced the old one off.
   */
  renew(): void {
    const old = this.#producer
    this.#producer = null
    void old?.close(true).catch(nothing)
  }

  inTurn(waiting: Waiting): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ...waiting, resolve, reject })
      if (!this.#busy) void this.#run()
    })
  }

  async #run(): Promise<void> {
    this.#busy = true
    for (let together = this.#next(); together.length > 0; together = this.#next()) {
      try {
        const results = await this.#work(this, together)
        for (const [n, { resolve }] of together.entries()) resolve(results[n] as T)
      } catch (error) {
        for (const { reject } of together) reject(error)
      }
    }
    this.#busy = false
  }

  #next(): Turn<T>[] {
    let count = 0
    const end = this.#waiting.findIndex(({ deliveries }, at) => {
      count += deliveries.length
      return at > 0 && count > MOST_TOGETHER
    })
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end)
  }

  /** The same partition for a key as Kafka's own clients choose; without a key, one after the other. */
  partitionFor(topic: string, key: Buffer | undefined, count: number): number {
    if (key !== undefined) return this.#module.compatibilityPartitioner(null, key) % count
    const turn = this.#turns.get(topic) ?? 0
    this.#turns.set(topic, turn + 1)
    return turn % count
  }

  async end(): Promise<void> {
    this.#ended = true
    const last = this.#producer
    this.#producer = null
    await last?.close(true)
  }

  #create(): Producer {
    const producer = new this.#module.Producer({ ...this.#settings })
    // The client reports some failures twice; the second time nobody listens, and Node would end the process.
    producer.connections.on('connecting', ({ connection }) => connection.on('error', nothing))
    return producer
  }
}
