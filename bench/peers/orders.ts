/** What the messages between the benchmark and its processes look like. */
import type { SubjectName } from './subject.ts'

interface Common {
  readonly url: string
  readonly subject: SubjectName
}

/** Handles what comes, until it is told to stop. */
export interface HandleOrder extends Common {
  readonly kind: 'handle'
}

/** Publishes a backlog in one transaction. */
export interface FillOrder extends Common {
  readonly kind: 'fill'
  readonly events: number
}

/** Publishes and handles in one process at a steady rate. */
export interface LatencyOrder extends Common {
  readonly kind: 'latency'
  readonly keyed: boolean
  readonly perSecond: number
  readonly warmUpSeconds: number
  readonly seconds: number
}

/** As many business transactions as can be done, with or without an event. */
export interface PublishOrder {
  readonly kind: 'publish'
  readonly url: string
  readonly subject: SubjectName | 'none'
  readonly connections: number
  readonly warmUpSeconds: number
  readonly seconds: number
}

export type Order = HandleOrder | FillOrder | LatencyOrder | PublishOrder

export interface LatencyFigures {
  readonly p50: number
  readonly p99: number
  readonly count: number
}

export type Message =
  | { readonly kind: 'ready' }
  | {
      readonly kind: 'handled'
      readonly count: number
      readonly rssPeak: number
      /** Of the processors, since it was ready. */
      readonly usedMs: number
    }
  | { readonly kind: 'filled' }
  | { readonly kind: 'latency'; readonly figures: LatencyFigures }
  | { readonly kind: 'published'; readonly perSecond: number }
