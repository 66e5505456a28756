/**
 * One producer at a time, and one send at a time on it: the client numbers records when a send begins and counts them when
 * it ends, so two at once would have the same numbers, and the broker would take the second for a repetition of the first.
 */
import type { KafkaModule, Producer } from './client.ts'

const nothing = (): void => undefined

export class Session {
  readonly #module: KafkaModule
  readonly #settings: object
  readonly #broken: () => void
  #producer: Producer | null = null
  #last: Promise<unknown> = Promise.resolve()
  #turns = new Map<string, number>()
  #ended = false
  readonly #openedAt = performance.now()

  /** `broken` is told when a connection was closed while something was under way. */
  constructor(module: KafkaModule, settings: object, broken: () => void) {
    this.#module = module
    this.#settings = settings
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

  async inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#last.then(work)
    this.#last = mine.catch(nothing)
    return await mine
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
