/** What an outage must leave as it was, judged from figures alone. */
import type { BrokerKind } from '../brokers/kit.ts'

export type Phase = 'before' | 'during' | 'after'
export const PHASES: readonly Phase[] = ['before', 'during', 'after']

/** Of the destination beside the broker, in one phase. */
export interface Pace {
  /** Transactions that were confirmed. */
  readonly committedPerSecond: number
  readonly heardPerSecond: number
  /** From the begin of the transaction until its event was heard. */
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface Figures {
  readonly broker: BrokerKind
  /** For how long the broker was left dead. */
  readonly seconds: number
  /** From its death until it was ready again, with its start. */
  readonly awayMs: number
  readonly committed: number
  /** Events that lie in the broker. */
  readonly delivered: number
  readonly lost: number
  /** Messages beyond one for each event. */
  readonly duplicates: number
  readonly outOfOrder: number
  readonly dead: number
  readonly attemptsSpent: number
  /** Deliveries that waited when the broker was started again. */
  readonly waitingAtEnd: number
  readonly breaker: {
    /** From the kill until it was seen open; null: never. */
    readonly openAfterMs: number | null
    /** Of the time that the broker was away. */
    readonly openShare: number
  }
  /** From the broker's being ready until nothing waited any more; null: not in time. */
  readonly recoveryMs: number | null
  readonly other: Readonly<Record<Phase, Pace>>
  /** Events that the other destination did not hear. */
  readonly otherLost: number
}

/**
 * The load is the same all the time, so whoever keeps up hears as much as is committed; the rest is what is under way at
 * a phase's ends, and another process on the machine.
 */
const LEAST_SHARE = 0.95
/** The database carries the backlog too, and is read while it waits; but nobody may wait for the broker, which takes seconds. */
const MOST_TIMES = 2
const MOST_MORE_MS = 50

/** What is broken, in words. */
export const problemsOf = (figures: Figures): string[] => {
  const { lost, otherLost, outOfOrder, dead, attemptsSpent, breaker, recoveryMs } = figures
  const problems: string[] = []
  const must = (holds: boolean, problem: string): void => {
    if (!holds) problems.push(problem)
  }
  must(lost === 0, `${lost} events never reached the broker`)
  must(otherLost === 0, `${otherLost} events never reached the other destination`)
  must(outOfOrder === 0, `${outOfOrder} events came after a later one of their key`)
  must(dead === 0, `${dead} deliveries are dead`)
  must(attemptsSpent === 0, `${attemptsSpent} attempts were spent`)
  must(breaker.openAfterMs !== null, 'the breaker was never seen open')
  must(recoveryMs !== null, 'not everything was delivered in time afterwards')
  return problems
}

/** What says that the other destination was slower; figures of a machine that may be busy with other things. */
export const slownessOf = ({ other: { before, during } }: Figures): string[] => {
  const problems: string[] = []
  const share = during.heardPerSecond / Math.max(during.committedPerSecond, Number.EPSILON)
  if (share < LEAST_SHARE)
    problems.push(`the other destination heard ${Math.round(share * 100)} % of what was committed meanwhile`)
  const mostMs = before.p50Ms * MOST_TIMES + MOST_MORE_MS
  if (during.p50Ms > mostMs)
    problems.push(`the other destination's median was ${during.p50Ms} ms, above ${Math.round(mostMs)} ms`)
  return problems
}
