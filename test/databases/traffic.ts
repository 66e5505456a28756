/**
 * Writers that go on whatever happens. Each event is published in one transaction with a row of a table of their
 * own, so that table is the truth about what was committed, also where an answer was lost.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { ERROR_CODES, OutboxError } from '../../src/core/errors.ts'
import type { PostgresHandle } from '../../src/stores/postgres/index.ts'
import { type PgOutbox, type PostgresWorld, tick } from './postgres-world.ts'

const WRITERS = 4
const KEYS_PER_WRITER = 2
/** A writer leaves the machine to others for this long after each event, and longer after a failure. */
const PACE_MS = 1
const AFTER_FAILURE_MS = 25

export interface Traffic {
  /** Transactions that were rejected, for whatever reason. */
  readonly failures: number
  /** The reasons, but for those that the driver gave to the writer's own statement. */
  readonly errors: readonly unknown[]
  /** `more` transactions are confirmed from now on. */
  commits(more: number): Promise<void>
  stop(): Promise<void>
}

export interface Verdict {
  /** Committed and not heard. */
  readonly lost: readonly number[]
  /** Heard and not committed. */
  readonly ghosts: readonly number[]
  /** First arrivals of a key that were out of order. */
  readonly disorder: readonly string[]
  /** Rejections that are no errors of ours. */
  readonly strange: readonly unknown[]
  readonly duplicates: number
}

/** Each writer has keys of its own, so the order of a key is the order in which the writer committed. */
const keyOf = (n: number): string | undefined => {
  const turn = Math.floor(n / WRITERS) % (KEYS_PER_WRITER + 1)
  return turn === KEYS_PER_WRITER ? undefined : `k${n % WRITERS}-${turn}`
}

/** The driver's own words to the application, which are none of our business. */
class OwnStatementError extends Error {}

export const startTraffic = async (world: PostgresWorld, outbox: PgOutbox): Promise<Traffic> => {
  await world.rows('CREATE TABLE {schema}.truth (n int PRIMARY KEY)')
  const errors: unknown[] = []
  let committed = 0
  let failures = 0
  let running = true
  const insert = async (tx: PostgresHandle, n: number): Promise<void> => {
    try {
      await tx.query(`INSERT INTO ${world.schema}.truth VALUES ($1)`, [n])
    } catch (cause) {
      throw new OwnStatementError('the row was not written', { cause })
    }
  }
  const write = async (writer: number): Promise<void> => {
    for (let n = writer; running; n += WRITERS) {
      try {
        await outbox.transaction(async (tx) => {
          await insert(tx, n)
          await outbox.publish(tx, tick(n, keyOf(n)))
        })
        committed += 1
        await pause(PACE_MS)
      } catch (error) {
        failures += 1
        if (!(error instanceof OwnStatementError)) errors.push(error)
        await pause(AFTER_FAILURE_MS)
      }
      world.ring()
    }
  }
  const writers = Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)))
  return {
    get failures() {
      return failures
    },
    errors,
    commits(more) {
      const goal = committed + more
      return world.until(() => committed >= goal)
    },
    async stop() {
      running = false
      await writers
    },
  }
}

const disorderOf = (heard: readonly number[]): string[] => {
  const latest = new Map<string, number>()
  return heard.flatMap((n) => {
    const key = keyOf(n)
    if (key === undefined) return []
    const before = latest.get(key) ?? -1
    latest.set(key, Math.max(n, before))
    return n < before ? [`${n} after ${before}`] : []
  })
}

/** After the traffic stopped: waits until everything that was committed has arrived and is settled. */
export const judge = async (world: PostgresWorld, traffic: Traffic): Promise<Verdict> => {
  const truth = new Set((await world.rows<{ n: number }>('SELECT n FROM {schema}.truth')).map(({ n }) => n))
  await world.drained()
  const heard = new Set(world.numbers)
  return {
    lost: [...truth].filter((n) => !heard.has(n)),
    ghosts: [...heard].filter((n) => !truth.has(n)),
    disorder: disorderOf([...heard]),
    strange: traffic.errors.filter((error) => !(error instanceof OutboxError)),
    duplicates: world.numbers.length - heard.size,
  }
}

export const WELL: Omit<Verdict, 'duplicates'> = { lost: [], ghosts: [], disorder: [], strange: [] }

export const codesOf = (errors: readonly unknown[]): string[] => [
  ...new Set(errors.map((error) => (error instanceof OutboxError ? error.code : String(error)))),
]

/** Codes that an application may see while its server is away. */
export const OUTAGE_CODES: readonly string[] = [ERROR_CODES.storeUnavailable, ERROR_CODES.commitUnknown]
