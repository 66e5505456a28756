/** What every measurement is given. */
import type { BenchDatabase } from './database.ts'
import type { Series } from './series.ts'
import type { Subject } from './subject.ts'

export const SECTIONS = ['drain', 'latency', 'publish', 'growth', 'memory', 'others'] as const
export type Section = (typeof SECTIONS)[number]

export interface Sizes {
  readonly rounds: number
  /** Backlog of the drain. */
  readonly events: number
  /** Before latency and publish are measured, so that code is compiled as it is in a process that has run for a while. */
  readonly warmUpSeconds: number
  /** The same for drains: a first backlog, which does not count. */
  readonly warmUpEvents: number
  readonly latencySeconds: number
  readonly publishSeconds: number
  /** Backlog of the drains with a history or a pinned horizon: long enough for dead rows to matter. */
  readonly growthEvents: number
  /** Numbers of finished rows, rising. */
  readonly growth: readonly number[]
  /** The large backlog. */
  readonly pending: number
}

/** Comes as JSON from `npm run bench`. */
export interface Settings {
  readonly url: string
  /** Of MariaDB and MySQL, or why there is none. */
  readonly others: Readonly<Record<string, { readonly url: string } | { readonly skipped: string }>>
  readonly command: string
  readonly sections: readonly Section[]
  readonly sizes: Sizes
  /** What a round trip to PostgreSQL takes besides; 0: it is on this machine. */
  readonly awayMs: number
}

export interface Context {
  readonly database: BenchDatabase
  readonly sizes: Sizes
  readonly series: Series
  readonly subjects: readonly Subject[]
}

export const count = (value: number): string => Math.round(value).toLocaleString('en-US')
