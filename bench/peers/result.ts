/** The file that a run leaves behind; everything in it comes from that run. */
import type { Machine } from '../machine.ts'
import type { SubjectName } from './subject.ts'

/** `median` is null where nothing could be measured; then `reason` says why. */
export interface Figure {
  readonly median: number | null
  readonly min: number | null
  readonly max: number | null
  readonly runs: readonly number[]
  readonly reason?: string
}

export type BySubject<T> = Readonly<Partial<Record<SubjectName, T>>>

export interface LatencyFigure {
  /** Milliseconds. */
  readonly p50: Figure
  readonly p99: Figure
}

export type ByRate = Readonly<Record<string, LatencyFigure>>

export interface GrowthFigures {
  /** Events per second by the number of finished rows. */
  readonly finished: Readonly<Record<string, Figure>>
  /** With a transaction open for the whole time. */
  readonly pinned: Figure
  /** The first events of a backlog of that many. */
  readonly pending: Readonly<Record<string, Figure>>
}

export interface Target {
  readonly name: string
  readonly target: string
  readonly measured: string
  readonly met: boolean
}

export interface BenchResult {
  readonly date: string
  readonly command: string
  readonly machine: Machine
  readonly node: string
  readonly postgres: Readonly<Record<string, string>>
  readonly versions: BySubject<string>
  readonly settings: {
    readonly rounds: number
    readonly events: number
    readonly growthEvents: number
    readonly payloadBytes: number
    /** Added to every round trip. Files of before there was that do not have it. */
    readonly awayMs?: number
    readonly subjects: BySubject<Readonly<Record<string, unknown>>>
  }
  /** Events per second, one process; and two. */
  readonly drain?: BySubject<
    Figure & {
      readonly twoProcesses: Figure
      /** Processor time with one process. */
      readonly microsPerEvent: { readonly clients: Figure; readonly server: Figure }
    }
  >
  readonly latency?: BySubject<{ readonly unkeyed: ByRate; readonly keyed: ByRate }>
  /** Transactions per second. */
  readonly publish?: Readonly<Partial<Record<SubjectName | 'none', Figure>>>
  readonly growth?: BySubject<GrowthFigures>
  /** The largest resident set in mebibytes; `limited` is Posthaste with `--max-semi-space-size=16`. */
  readonly memory?: {
    readonly backlog: number
    readonly posthaste: Figure
    readonly limited: Figure
    readonly handmade: Figure
  }
  /** Other databases, Posthaste alone. */
  readonly others?: Readonly<
    Record<
      string,
      | { readonly skipped: string }
      | { readonly drain: Figure; readonly publish: Figure; readonly publishNone: Figure }
    >
  >
  readonly targets: readonly Target[]
  readonly failures: readonly string[]
}
