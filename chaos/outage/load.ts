/** A steady load, and what becomes of it at the destination beside the broker. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Outbox } from '../../src/index.ts'
import type { PostgresHandle } from '../../src/stores/postgres/index.ts'
import { type Pace, PHASES, type Phase } from './verdict.ts'

export const TYPE = 'order.placed'
/** Says which event of all it is, so that the order of a key can be seen at the broker. */
export const NUMBER_HEADER = 'number'
/** At once, each with keys of its own: so the order of a key is the order in which its events were written. */
const WRITERS = 8
const KEYS = 6
/** Every fourth has no key, and may be sent right after its commit. */
const keyOf = (writer: number, n: number): string | null =>
  n % 4 === 0 ? null : `k${writer}-${Math.floor(n / WRITERS) % KEYS}`

interface Tally {
  committed: number
  readonly waitsMs: number[]
  lastsMs: number
}

const percentile = (sorted: readonly number[], share: number): number =>
  Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0)

export class Load {
  readonly #outbox: Outbox<PostgresHandle>
  readonly #intervalMs: number
  /** By event, when its transaction began. */
  readonly #written = new Map<string, number>()
  readonly #heard = new Set<string>()
  readonly #tallies = new Map<Phase, Tally>(
    PHASES.map((phase) => [phase, { committed: 0, waitsMs: [], lastsMs: 0 }]),
  )
  #phase: Phase = 'before'
  #phaseSince = 0
  #isRunning = false
  #ended: Promise<unknown> = Promise.resolve()
  #n = 0

  constructor(outbox: Outbox<PostgresHandle>, eventsPerSecond: number) {
    this.#outbox = outbox
    this.#intervalMs = (1_000 / eventsPerSecond) * WRITERS
  }

  get committed(): ReadonlySet<string> {
    return new Set(this.#written.keys())
  }

  get unheard(): number {
    return [...this.#written.keys()].filter((id) => !this.#heard.has(id)).length
  }

  /** Called by the listener. */
  hear(id: string): void {
    if (this.#heard.has(id)) return
    this.#heard.add(id)
    const beganAt = this.#written.get(id)
    if (beganAt !== undefined) this.#note(beganAt)
  }

  start(): void {
    this.#isRunning = true
    this.#phaseSince = performance.now()
    this.#ended = Promise.all(Array.from({ length: WRITERS }, (_, writer) => this.#run(writer)))
  }

  /** What is heard from now on counts for this one. */
  enter(phase: Phase): void {
    const now = performance.now()
    this.#tally(this.#phase).lastsMs += now - this.#phaseSince
    this.#phase = phase
    this.#phaseSince = now
  }

  async stop(): Promise<void> {
    this.#isRunning = false
    await this.#ended
    this.enter(this.#phase)
  }

  pace(phase: Phase): Pace {
    const { committed, waitsMs, lastsMs } = this.#tally(phase)
    const sorted = waitsMs.toSorted((a, b) => a - b)
    const perSecond = (count: number): number => Math.round((count / lastsMs) * 10_000) / 10
    return {
      committedPerSecond: perSecond(committed),
      heardPerSecond: perSecond(waitsMs.length),
      p50Ms: percentile(sorted, 0.5),
      p99Ms: percentile(sorted, 0.99),
    }
  }

  /** One transaction after the other; who falls behind does not catch up. */
  async #run(writer: number): Promise<void> {
    let due = performance.now() + (this.#intervalMs / WRITERS) * writer
    while (this.#isRunning) {
      await pause(Math.max(0, due - performance.now()))
      await this.#write(writer)
      due = Math.max(due, performance.now() - this.#intervalMs) + this.#intervalMs
    }
  }

  async #write(writer: number): Promise<void> {
    const [n, beganAt] = [this.#n++, performance.now()]
    const key = keyOf(writer, n)
    const draft = { type: TYPE, key, payload: { n }, headers: { [NUMBER_HEADER]: String(n) } }
    const id = await this.#outbox.transaction((tx) => this.#outbox.publish(tx, draft))
    this.#written.set(id, beganAt)
    this.#tally(this.#phase).committed += 1
    // On the hot path it may have been heard before we knew.
    if (this.#heard.has(id)) this.#note(beganAt)
  }

  /** Counted in the phase in which it was heard: who waits for the broker is heard too late. */
  #note(beganAt: number): void {
    this.#tally(this.#phase).waitsMs.push(performance.now() - beganAt)
  }

  #tally(phase: Phase): Tally {
    return this.#tallies.get(phase) as Tally
  }
}
