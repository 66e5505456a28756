/** What the processes of a run say to each other. */
import type { BrokerKind } from '../brokers/kit.ts'
import type { Fate, SinkAnswer } from '../logs.ts'
import type { Regime } from '../regime.ts'

export type StoreKind = 'postgres' | 'mysql' | 'mariadb' | 'sqlite'

export const STORE_KINDS: readonly StoreKind[] = ['postgres', 'mysql', 'mariadb', 'sqlite']

/** A way to the database: an address, or the file of SQLite. */
export interface Place {
  readonly kind: StoreKind
  readonly at: string
}

export interface SinkTask {
  readonly folder: string
  /** 0: any that is free. */
  readonly port: number
}

export interface ReaderTask {
  readonly folder: string
  readonly kind: BrokerKind
  readonly url: string
}

/** `reading`: the broker answers. `read-all`: it was asked to end, and has read everything. */
export interface FromReader {
  readonly kind: 'reading' | 'read-all'
}

export interface SinkSend {
  readonly event: string
  readonly run: number
  readonly attempt: number
  readonly failures: number
  readonly fate: Fate
}

export interface SinkRequest {
  readonly request: number
  readonly slot: string
  readonly boot: string
  readonly destination: string
  readonly sends: readonly SinkSend[]
}

export interface SinkResponse {
  readonly request: number
  readonly answers: readonly SinkAnswer[]
}

export interface MemberTask {
  readonly folder: string
  readonly regime: Regime
  readonly slot: string
  readonly boot: string
  readonly seed: number
  readonly place: Place
  readonly sinkPort: number
  /** The way to the real broker, where a run has one. */
  readonly brokerUrl: string | null
  readonly destinations: readonly string[]
  readonly produces: boolean
  readonly serves: boolean
  readonly leaseMs: number
  readonly maxAttempts: number
  /** The folder of another build of this package; null for the sources. */
  readonly build: string | null
}

export type ToMember =
  /** Hold the next transaction open for so long between publish and commit. */
  { readonly kind: 'hold'; readonly ms: number } | { readonly kind: 'stop-producing' }

export type FromMember =
  | { readonly kind: 'ready' }
  | { readonly kind: 'held' }
  | { readonly kind: 'stopped-producing' }
  | ({ readonly kind: 'counted'; readonly committed: number; readonly done: number } & Vitals)

/** What a process says about itself. */
export interface Vitals {
  readonly rssBytes: number
  /** Timers, sockets, requests: whatever keeps the event loop going. */
  readonly handles: number
}
