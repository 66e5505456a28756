/** Between `prove` and its children, and into the files that both know. */
import type { Place } from '../disposable.ts'
import type { NamedDestination } from './destination.ts'

export const LEASE_MS = 2_000
/** A send counts as in flight at a fault this long before and after it. */
export const AFTERMATH_MS = 4_000

export const LEDGER = 'ledger.ndjson'
export const ANSWERS = 'answers.ndjson'
export const OBSERVED = 'observed.ndjson'
export const SETTLED = 'settled.ndjson'

export interface Task {
  readonly role: 'producer' | 'worker'
  readonly slot: string
  /** New at every start of the slot. */
  readonly boot: string
  readonly seed: number
  readonly perSecond: number
  readonly place: Place
  readonly folder: string
  /** A destination of the configuration; null for the ledger alone. */
  readonly destination: NamedDestination | null
}

export type FromMember = { readonly kind: 'ready' } | { readonly kind: 'refused'; readonly reason: string }

/** What was taken: one line per delivery, in the order in which it was. */
export interface LedgerLine {
  readonly at: number
  readonly slot: string
  readonly boot: string
  readonly id: string
}

/** What the database confirmed to its sender as done. */
export interface SettledLine {
  readonly boot: string
  readonly ids: readonly string[]
}

/** What a producer was told of a transaction. */
export interface AnswerLine {
  readonly at: number
  readonly commitAt: number
  readonly ids: readonly string[]
  readonly what: 'ok' | 'failed' | 'unknown'
  /** It ended its own connection before the COMMIT. */
  readonly cut?: true
}

export interface ObservedLine {
  readonly at: number
  readonly slot: string
  readonly what: 'fenced' | 'stalled'
  readonly ms: number
}

/** Chance that follows from a number alone. */
export const chance = (seed: number): (() => number) => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
