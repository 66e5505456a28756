/** Delivers until nothing is due, and counts by what was written rather than by what was tried. */
import type { SettleRequest, SettleResult } from '../core/spi/index.ts'
import type { MemoryDatabase } from '../stores/memory/index.ts'
import type { FakeRuntime } from './fake-runtime.ts'

export interface DrainOptions {
  /** Also what is due only later, such as retries: the fake clock is moved from one to the next. Default false. */
  readonly untilIdle?: boolean
  /** Most fake time that passes with `untilIdle`, in ms. Default 7 days. */
  readonly maxMs?: number
}

export interface Drained {
  readonly done: number
  readonly retried: number
  readonly dead: number
  /** Unfinished deliveries that are left: not due yet, held, paused or served by nobody. */
  readonly left: number
}

export interface DrainParts {
  readonly outbox: { processOnce(): Promise<{ readonly claimed: number }> }
  readonly database: MemoryDatabase
  /** Null when time is real. */
  readonly runtime: FakeRuntime | null
}

const WEEK_MS = 7 * 24 * 3_600_000
/** Where nothing has a time of its own (an open breaker, a rate limit) time moves by this much. */
const STEP_MS = 1_000
/** So many steps without anything happening, and nothing will. */
const PATIENCE = 120
/** A first round can go into finding out where events belong, without delivering any. */
const IDLE_ROUNDS = 2

const UNFINISHED = new Set(['pending', 'retry', 'scheduled', 'held'])

export const createDrain = () => {
  let counts = { done: 0, retried: 0, dead: 0 }

  const total = (): number => counts.done + counts.retried + counts.dead

  const deliverDue = async ({ outbox, runtime }: DrainParts): Promise<void> => {
    for (let idle = 0; idle < IDLE_ROUNDS; ) {
      const before = total()
      await outbox.processOnce()
      await runtime?.settle()
      idle = total() === before ? idle + 1 : 0
    }
  }

  /** Moves the clock to the next time something is due; false when nothing is left to wait for. */
  const letTimePass = async ({ database, runtime }: DrainParts, mostMs: number): Promise<number> => {
    const unfinished = [...database.deliveries.values()].filter(({ status }) => UNFINISHED.has(status))
    if (runtime === null || unfinished.length === 0) return 0
    const now = database.now()
    const waits = unfinished
      .filter(({ status, token }) => status !== 'held' && !(status === 'pending' && token === null))
      .map(({ availableAtMs }) => Math.ceil(availableAtMs - now))
      .filter((ms) => ms > 0)
    const ms = Math.min(mostMs, waits.length > 0 ? Math.min(...waits) : STEP_MS)
    await runtime.advance(ms)
    return ms
  }

  return {
    settled({ settlements }: SettleRequest, { lost }: SettleResult): void {
      const gone = new Set(lost)
      for (const { delivery, outcome } of settlements) {
        if (gone.has(delivery.id) || outcome.kind === 'released') continue
        if (outcome.kind === 'retry') counts.retried += 1
        else counts[outcome.kind] += 1
      }
    },

    async run(
      parts: DrainParts,
      { untilIdle = false, maxMs = WEEK_MS }: DrainOptions = {},
    ): Promise<Drained> {
      counts = { done: 0, retried: 0, dead: 0 }
      await deliverDue(parts)
      let left = maxMs
      for (let fruitless = 0; untilIdle && left > 0 && fruitless < PATIENCE; ) {
        const before = total()
        const passed = await letTimePass(parts, left)
        if (passed === 0) break
        left -= passed
        await deliverDue(parts)
        fruitless = total() === before ? fruitless + 1 : 0
      }
      const unfinished = [...parts.database.deliveries.values()].filter(({ status }) =>
        UNFINISHED.has(status),
      )
      return { ...counts, left: unfinished.length }
    },
  }
}
