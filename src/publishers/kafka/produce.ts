/**
 * Records to partitions, in rounds: of each partition as much as the broker takes at once, in order. A partition accepts
 * all of a round's records or none. When one of a key is not accepted, those behind it in the key are not sent.
 */
import { isOutageError } from '../../core/errors.ts'
import type { SendResult } from '../../core/spi/index.ts'
import { behind, failed, SENT } from '../shared/results.ts'
import {
  answersIn,
  isClosed,
  isRefusal,
  type KafkaMessage,
  outageOf,
  placeOf,
  recordFailure,
  type Sending,
} from './client.ts'

export interface Parcel {
  readonly message: KafkaMessage
  /** Null: order does not matter. */
  readonly key: string | null
  readonly bytes: number
}

interface Producing {
  readonly producer: Sending
  renew(): void
}

/** Brokers refuse requests above 100 MB, and all of it is in memory at once. */
const ROUND_BYTES = 16 * 1_024 * 1_024

/** One send's parcels and what became of them. */
export class Shipment {
  readonly results: (SendResult | null)[]
  /** A connection was closed while something was under way. */
  lost = false
  readonly #parcels: readonly (Parcel | null)[]
  /** By key, the first that was not accepted. */
  readonly #brokenAt = new Map<string, number>()
  readonly #maxPartitionBytes: number
  /** How many records of a partition may share a round, where the broker refused more. */
  readonly #most = new Map<string, number>()

  /** A parcel that is null has its result already; `keys` are of all of them. */
  constructor(
    parcels: readonly (Parcel | null)[],
    results: readonly (SendResult | null)[],
    keys: readonly (string | null)[],
    maxPartitionBytes: number,
  ) {
    this.#parcels = parcels
    this.results = [...results]
    this.#maxPartitionBytes = maxPartitionBytes
    for (const [at, result] of results.entries()) if (result !== null) this.#breakKey(keys[at] ?? null, at)
  }

  /** Sends all that have no result yet. */
  async run(session: Producing, signal: AbortSignal): Promise<void> {
    for (let round = this.#nextRound(); round.length > 0 && !this.lost; round = this.#nextRound()) {
      signal.throwIfAborted()
      if (!(await this.#send(round, session.producer))) session.renew()
    }
  }

  /** The same, up to the first failure. False when there was one. */
  async runWhole(transaction: Sending, signal: AbortSignal): Promise<boolean> {
    for (let round = this.#nextRound(); round.length > 0; round = this.#nextRound()) {
      signal.throwIfAborted()
      if (!(await this.#send(round, transaction))) return false
    }
    return true
  }

  /** What was accepted counts no longer: a transaction was given up. */
  takeBack(): void {
    for (const [at, result] of this.results.entries()) if (result?.ok === true) this.results[at] = null
  }

  fail(error: unknown): void {
    for (const [at, result] of this.results.entries())
      if (result === null || result.ok) this.results[at] = failed(error)
  }

  get outage(): unknown {
    const found = this.results.find((result) => result?.ok === false && isOutageError(result.error))
    return found?.ok === false ? found.error : null
  }

  #nextRound(): number[] {
    const round: number[] = []
    const places = new Map<string, { bytes: number; count: number; full: boolean }>()
    let total = 0
    for (const [at, parcel] of this.#parcels.entries()) {
      if (parcel === null || this.results[at] !== null) continue
      if (parcel.key !== null && (this.#brokenAt.get(parcel.key) ?? at) < at) {
        this.results[at] = behind()
        continue
      }
      const { topic, partition } = parcel.message
      const name = placeOf(topic, partition)
      const place = places.get(name) ?? { bytes: 0, count: 0, full: false }
      places.set(name, place)
      const isTooMuch =
        place.count > 0 &&
        (place.bytes + parcel.bytes > this.#maxPartitionBytes ||
          place.count >= (this.#most.get(name) ?? Number.POSITIVE_INFINITY))
      // What comes behind it in its partition waits with it.
      place.full ||= isTooMuch || (total > 0 && total + parcel.bytes > ROUND_BYTES)
      if (place.full) continue
      place.bytes += parcel.bytes
      place.count += 1
      total += parcel.bytes
      round.push(at)
    }
    return round
  }

  async #send(round: readonly number[], sending: Sending): Promise<boolean> {
    const messages = round.map((at) => (this.#parcels[at] as Parcel).message)
    try {
      await sending.send({ messages, acks: -1 })
      for (const at of round) this.results[at] = SENT
      return true
    } catch (error) {
      this.#settle(round, error)
      return false
    }
  }

  #settle(round: readonly number[], thrown: unknown): void {
    this.lost ||= isClosed(thrown)
    const answers = answersIn(thrown)
    const byPlace = new Map<string, number[]>()
    for (const at of round) {
      const { topic, partition } = (this.#parcels[at] as Parcel).message
      const name = placeOf(topic, partition)
      byPlace.set(name, [...(byPlace.get(name) ?? []), at])
    }
    for (const [name, members] of byPlace) {
      const answer = answers.get(name)
      const code = answer?.errorCode
      if (code !== undefined && isRefusal(code) && members.length > 1) {
        this.#most.set(name, Math.ceil(members.length / 2))
        continue
      }
      const result =
        answer === undefined
          ? failed(outageOf(thrown))
          : code === 0
            ? SENT
            : failed(recordFailure(this.#topicOf(members), code ?? 0, answer.errorMessage))
      for (const at of members) this.#note(at, result)
    }
  }

  /** Of those that were sent to one place. */
  #topicOf([first = 0]: readonly number[]): string {
    return (this.#parcels[first] as Parcel).message.topic
  }

  #note(at: number, result: SendResult): void {
    this.results[at] = result
    if (!result.ok) this.#breakKey(this.#parcels[at]?.key ?? null, at)
  }

  #breakKey(key: string | null, at: number): void {
    if (key !== null) this.#brokenAt.set(key, Math.min(at, this.#brokenAt.get(key) ?? at))
  }
}
