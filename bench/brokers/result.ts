/** The file that `npm run bench:brokers` leaves behind; everything in it comes from that run. */
import type { BenchResult, Figure } from '../peers/result.ts'

export interface BrokerFigures {
  /** Of the broker, as it says itself or as its package is called. */
  readonly client: string
  /** Events per second, through Posthaste and by the client alone. */
  readonly posthaste: Figure
  readonly raw: Figure
  /** Of the medians. */
  readonly ratio: number | null
  readonly met: boolean
  /** Processor time of the process per event, in microseconds; servers not counted. */
  readonly cpuMicros: { readonly posthaste: Figure; readonly raw: Figure }
}

export interface BrokersResult {
  readonly kind: 'brokers'
  readonly date: string
  readonly command: string
  readonly machine: BenchResult['machine']
  readonly node: string
  readonly postgres: Readonly<Record<string, string>>
  readonly settings: {
    readonly rounds: number
    readonly events: number
    readonly payloadBytes: number
    readonly keys: number
    readonly concurrency: number
    readonly batchSize: number
    readonly window: number
  }
  /** The same drain to a destination that does nothing: no broker can be faster. */
  readonly ceiling: Figure & { readonly cpuMicros: Figure }
  readonly target: number
  readonly brokers: Readonly<Record<string, BrokerFigures>>
  readonly failures: readonly string[]
}
