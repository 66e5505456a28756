/** A steady load, and what becomes of it at the destination beside the broker. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Outbox } from '../../src/index.ts'
import type { PostgresHandle } from '../../src/stores/postgres/index.ts'
import { type Pace, PHASES, type Phase } from './verdict.ts'

export const TYPE = 'order.placed'
/** Says which event of all it is, so that the order of a key can be seen at the broker. */
export const NUMBER_HEADER = 'number'
const KEYS = 50
/** Every fourth has no key, and may be sent right after its commit. */
const keyOf = (n: number): string | null => (n % 4 === 0 ? null : `k${n % KEYS}`)

interface Written {
  readonly phase: Phase
  readonly beganAt: number
}

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
  readonly #written = new Map<string, Written>()
  readonly #heard = new Set<string>()
  readonly #tallies = new Map<Phase, Tally>(
    PHASES.map((phase) => [phase, { committed: 0, waitsMs: [], lastsMs: 0 }]),
  )
  #phase: Phase = 'before'
  #n = 0

  constructor(outbox: Outbox<PostgresHandle>, eventsPerSecond: number) {
    this.#outbox = outbox
    this.#intervalMs = 1_000 / eventsPerSecond
  }

  get committed(): ReadonlySet<string> {
    return new Set(this.#written.keys())
  }

  get unheard(): number {
    return [...this.#written.keys()].filter((id) => !this.#heard.has(id)).length
  }

  /** Called by the listener. */
  hear(id: string): void {
    this.#heard.add(id)
    const written = this.#written.get(id)
    if (written !== undefined) this.#note(written)
  }

  /** Writes one transaction after the other until the signal; those who fall behind do not catch up. */
  async run(phase: Phase, signal: AbortSignal): Promise<void> {
    this.#phase = phase
    const beganAt = performance.now()
    let due = beganAt
    while (!signal.aborted) {
      await this.#write()
      due = Math.max(due + this.#intervalMs, performance.now() - this.#intervalMs)
      await pause(Math.max(0, due - performance.now()))
    }
    this.#tally(phase).lastsMs += performance.now() - beganAt
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

  async #write(): Promise<void> {
    const [n, phase, beganAt] = [this.#n++, this.#phase, performance.now()]
    const draft = { type: TYPE, key: keyOf(n), payload: { n }, headers: { [NUMBER_HEADER]: String(n) } }
    const id = await this.#outbox.transaction((tx) => this.#outbox.publish(tx, draft))
    const written = { phase, beganAt }
    this.#written.set(id, written)
    this.#tally(phase).committed += 1
    // On the hot path it may have been heard before we knew.
    if (this.#heard.has(id)) this.#note(written)
  }

  /** Counted in the phase in which it was heard: a destination that waits for the broker is heard too late. */
  #note({ beganAt }: Written): void {
    this.#tally(this.#phase).waitsMs.push(performance.now() - beganAt)
  }

  #tally(phase: Phase): Tally {
    return this.#tallies.get(phase) as Tally
  }
}
