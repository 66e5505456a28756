/** What is measured, in one shape: each subject with its best documented settings, and all with the same events. */
import type { Section } from './context.ts'
import type { Query } from './database.ts'

export const SUBJECT_NAMES = ['posthaste', 'graphile', 'pgboss', 'handmade', 'samerows'] as const
export type SubjectName = (typeof SUBJECT_NAMES)[number]

export interface OpenOptions {
  readonly url: string
  /** `handle` and `publish` in processes of their own, or both in one, as the latency is measured. */
  readonly role: 'handle' | 'publish' | 'both'
  readonly keyed: boolean
  /** Of the application, for its transactions. */
  readonly connections: number
  /** Called once per handled event, with its number if that was asked for. */
  readonly handled: (n: number) => void
  /** False: the handler does not look at the event, as a destination that passes on bytes does not. */
  readonly readsPayload: boolean
}

export interface Opened {
  /**
   * One business transaction: BEGIN, an order, publish of event `n`, COMMIT. `committed` is called as soon as the
   * answer to COMMIT is there. Where only the event matters there is no order.
   */
  publish(n: number, order: 'with order' | 'event alone', committed: () => void): Promise<void>
  /**
   * Events 0 to `count` in one transaction, and a wake-up for whoever handles. With statistics as they would be
   * after a while: the planner should not take a full table for an empty one.
   */
  fill(count: number): Promise<void>
  close(): Promise<void>
}

export interface Subject {
  readonly name: SubjectName
  /** Name and version, as it is printed. */
  readonly label: string
  /** For the reader of the figures. */
  readonly settings: Readonly<Record<string, unknown>>
  /** Where it is measured; everywhere if it does not say. */
  readonly sections?: readonly Section[]
  /** Why it cannot keep the order of a key, or null. */
  readonly unordered: string | null
  /** Emptied before each run. */
  readonly tables: readonly string[]
  /** True as long as something is not durably settled. */
  readonly unfinished: string
  /** Creates its tables. */
  install(url: string): Promise<void>
  open(options: OpenOptions): Promise<Opened>
  /** Resolves when that many processes share the work, where sharing is decided beforehand. */
  balanced?(query: Query, processes: number): Promise<void>
  /** Statements that add `$1` finished rows, numbered from `$2`; or why there is no history. */
  readonly history: { readonly sql: readonly string[] } | { readonly none: string }
}

export const measuredIn = (section: Section, subjects: readonly Subject[]): readonly Subject[] =>
  subjects.filter(({ sections }) => sections === undefined || sections.includes(section))
