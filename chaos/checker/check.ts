/**
 * The offline checker: reads what a run left behind and says what of design's promises did not hold. It streams;
 * what it keeps in memory are one small record per event and destination.
 */

import { Faults } from '../../src/cli/prove/faults.ts'
import { type Confirmation, KeyOrder } from '../../src/cli/prove/key-order.ts'
import { recoveryOf } from '../../src/cli/prove/recovery.ts'
import { DELIVERY_STATUS } from '../../src/core/model/delivery.ts'
import { readFacts } from '../folders.ts'
import {
  type ArrivalLine,
  type FaultLine,
  FILES,
  type IntentLine,
  type LeftLine,
  plainId,
  type RunFacts,
  readLog,
  readLogs,
  type SettledLine,
  type SinkLine,
  type TransitionLine,
  type TruthBody,
  type TruthLine,
} from '../logs.ts'
import { Transitions } from './transitions.ts'
import { Findings, type Verdict } from './verdict.ts'

/** Times of two processes are compared, and a timer may be early by one. */
const CLOCK_TOLERANCE_MS = 5

interface Sent {
  readonly boot: string
  readonly slot: string
  readonly at: number
}

/** One event at one destination. */
interface Record {
  readonly accepted: Sent[]
  /** By boot: how often it knows that it is done. */
  readonly confirmed: Map<string, number>
  dead: boolean
}

interface Answer {
  readonly ids: readonly string[]
  what: IntentLine['what']
  /** Right before COMMIT was sent. */
  readonly commitAt: number
  answeredAt: number
}

const UNCONFIRMED = { what: 'unknown', commitAt: Infinity, answeredAt: Infinity } as const

const isRefused = ({ failures, fate }: TruthBody): boolean => failures > 0 || fate !== 'accepted'

class Checker {
  readonly #folder: string
  readonly #facts: RunFacts
  readonly #found = new Findings()
  readonly #truth = new Map<string, TruthLine>()
  readonly #answers = new Map<string, Answer>()
  readonly #records = new Map<string, Record>()
  readonly #order = new KeyOrder()
  readonly #faults: Faults

  constructor(folder: string) {
    this.#folder = folder
    this.#facts = readFacts(folder)
    this.#faults = new Faults(this.#facts.aftermathMs)
  }

  async run(): Promise<Verdict> {
    for await (const line of readLog<TruthLine>(this.#folder, FILES.truth))
      this.#truth.set(plainId(line.id), line)
    for await (const line of readLog<FaultLine>(this.#folder, FILES.faults)) this.#faults.add(line)
    await this.#readIntents()
    await this.#readSettled()
    await this.#readSink()
    await this.#readArrivals()
    await this.#readTransitions()
    await this.#readLeft()
    this.#judgeAnswers()
    this.#judgeDeliveries()
    const recovery = recoveryOf(this.#faults.ends, this.#waits())
    return this.#found.verdict(this.#facts, this.#truth.size, this.#faults, recovery)
  }

  async #readIntents(): Promise<void> {
    for await (const [, { boot, n, what, at, ids = [] }] of readLogs<IntentLine>(this.#folder, 'intents')) {
      const transaction = `${boot} ${n}`
      const answer = this.#answers.get(transaction)
      if (what === 'commit')
        this.#answers.set(transaction, { ids: ids.map(plainId), what, commitAt: at, answeredAt: Infinity })
      else if (answer !== undefined && what !== 'begin') {
        answer.what = what
        answer.answeredAt = at
      }
    }
  }

  async #readSettled(): Promise<void> {
    for await (const [slot, line] of readLogs<SettledLine>(this.#folder, 'settled')) {
      if (line.what === 'fenced' || line.what === 'stalled') this.#faults.observe(slot, line)
      if (line.what !== 'done') continue
      const { confirmed } = this.#record(line.event ?? '', line.destination ?? '')
      confirmed.set(line.boot, (confirmed.get(line.boot) ?? 0) + 1)
    }
  }

  async #readSink(): Promise<void> {
    for await (const line of readLog<SinkLine>(this.#folder, FILES.sink)) this.#take(line)
  }

  /** A reader may read a message again; that is no second message. */
  async #readArrivals(): Promise<void> {
    const seen = new Set<string>()
    for await (const line of readLog<ArrivalLine>(this.#folder, FILES.arrivals)) {
      const { destination, position, key, sends } = line
      const place = `${destination} ${position}`
      if (seen.has(place)) continue
      seen.add(place)
      const truth = this.#truth.get(plainId(sends[0]?.[0] ?? ''))
      if (truth !== undefined && truth.key !== key)
        this.#found.add(
          'ghosts',
          `event ${truth.id} of key ${truth.key} reached ${destination} with key ${key}`,
        )
      this.#take(line)
    }
  }

  #take({ at, boot, slot, destination, sends }: SinkLine): void {
    for (const [event, , , answer] of sends) {
      const truth = this.#truth.get(plainId(event))
      if (truth === undefined) {
        this.#found.add('ghosts', `event ${event} reached ${destination}, and was never committed`)
        continue
      }
      this.#judgeTime(truth, destination, at)
      const { accepted } = this.#record(event, destination)
      if (truth.key !== null) {
        const first = answer === 'ok' && accepted.length === 0
        const problem = this.#order.next(truth, destination, this.#confirmationOf(truth), at, first)
        if (problem !== null) this.#found.add('orderViolations', problem)
      }
      if (answer === 'ok') accepted.push({ boot, slot, at })
    }
  }

  #confirmationOf({ body: { boot, n } }: TruthLine): Confirmation {
    const { what, commitAt, answeredAt } = this.#answers.get(`${boot} ${n}`) ?? UNCONFIRMED
    return { commitAt, answeredAt: what === 'ok' ? answeredAt : Infinity }
  }

  /** Nothing may be sent before its COMMIT, nor before it is due. */
  #judgeTime({ id, body }: TruthLine, destination: string, at: number): void {
    const { boot, n, publishedAt, delayMs } = body
    const commitAt = this.#answers.get(`${boot} ${n}`)?.commitAt ?? 0
    const earliest = Math.max(commitAt, delayMs === 0 ? 0 : publishedAt + delayMs)
    if (at + CLOCK_TOLERANCE_MS < earliest)
      this.#found.add('ghosts', `event ${id} reached ${destination} ${earliest - at} ms before its time`)
  }

  async #readTransitions(): Promise<void> {
    const transitions = new Transitions(this.#facts.maxAttempts, this.#truth)
    for await (const line of readLog<TransitionLine>(this.#folder, FILES.transitions)) {
      const problem = transitions.next(line)
      if (problem !== null) this.#found.add('illegalTransitions', problem)
      if (line.of === 'finished' && line.op === 'insert') this.#countAttempts(line)
    }
    for (const problem of transitions.end()) this.#found.add('illegalTransitions', problem)
  }

  /** Not judged: a listener's failures are counted, whatever their cause, and so is who is suspected. */
  #countAttempts({ event, attempts }: TransitionLine): void {
    const truth = this.#truth.get(plainId(event))
    if (truth === undefined) return
    this.#found.count('attemptsSpent', Math.max(0, (attempts ?? 0) - truth.body.failures - 1))
  }

  async #readLeft(): Promise<void> {
    for await (const { event, destination, status } of readLog<LeftLine>(this.#folder, FILES.left)) {
      if (status === DELIVERY_STATUS.dead) this.#record(event, destination).dead = true
    }
  }

  /** What the application was told must be what the database has. */
  #judgeAnswers(): void {
    for (const { ids, what } of this.#answers.values()) {
      const stored = ids.filter((id) => this.#truth.has(id)).length
      if (what === 'ok' && stored < ids.length)
        this.#found.add('lost', `events ${ids.join(', ')} were confirmed, and are not in the database`)
      if (what === 'failed' && stored > 0)
        this.#found.add('wrongAnswers', `events ${ids.join(', ')} were refused, and are in the database`)
      if (what === 'unknown') this.#found.count('unknown')
    }
  }

  #judgeDeliveries(): void {
    for (const { id, body } of this.#truth.values()) {
      for (const destination of body.destinations) {
        const { accepted, confirmed, dead } = this.#record(id, destination)
        if (accepted.length === 0 && dead) this.#found.count('dead')
        if (accepted.length === 0 && !dead)
          this.#found.add('lost', `event ${id} never reached ${destination}`)
        if (accepted.length > 0) this.#found.count('delivered')
        this.#judgeDuplicates(`event ${id} at ${destination}`, accepted, confirmed)
      }
    }
  }

  /**
   * A send that its sender knows to be settled cannot be the cause of another one. So of all sends of a delivery
   * at most one may be anything but in flight at a fault that hit its sender.
   */
  #judgeDuplicates(what: string, accepted: readonly Sent[], confirmed: ReadonlyMap<string, number>): void {
    const credit = new Map(confirmed)
    let inFlight = 0
    // The last send of a process is the one that it settled.
    for (const { boot, slot, at } of accepted.toReversed()) {
      const left = credit.get(boot) ?? 0
      credit.set(boot, left - 1)
      if (left <= 0 && this.#faults.excuse(slot, at)) inFlight += 1
    }
    this.#found.count('duplicateBound', inFlight)
    if (accepted.length > 1) this.#found.count('duplicates', accepted.length - 1)
    if (accepted.length - inFlight > 1)
      this.#found.add(
        'unexplained',
        `${what} was accepted ${accepted.length} times, ${inFlight} of them in flight at a fault`,
      )
  }

  /** From the confirmed commit to the first arrival, of what nothing but faults can delay. */
  *#waits(): Generator<readonly [from: number, to: number]> {
    const waitsForOthers = this.#keysWithRefusals()
    for (const { id, key, body } of this.#truth.values()) {
      const answer = this.#answers.get(`${body.boot} ${body.n}`)
      if (answer?.what !== 'ok' || body.delayMs > 0 || isRefused(body)) continue
      if (key !== null && waitsForOthers.has(key)) continue
      for (const destination of body.destinations) {
        const first = this.#record(id, destination).accepted[0]
        if (first !== undefined) yield [answer.answeredAt, first.at]
      }
    }
  }

  /** Whoever stands behind an event that is refused waits for its last attempt, with and without faults. */
  #keysWithRefusals(): ReadonlySet<string> {
    const lines = [...this.#truth.values()]
    return new Set(lines.flatMap(({ key, body }) => (key !== null && isRefused(body) ? [key] : [])))
  }

  #record(event: string, destination: string): Record {
    const identity = `${plainId(event)} ${destination}`
    let record = this.#records.get(identity)
    if (record === undefined) {
      record = { accepted: [], confirmed: new Map(), dead: false }
      this.#records.set(identity, record)
    }
    return record
  }
}

export const checkRun = async (folder: string): Promise<Verdict> => await new Checker(folder).run()
