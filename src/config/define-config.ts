/** What `posthaste.config.ts` exports. JSON and TOML files have the same keys, without the code. */
import type { AnyEventDefinition } from '../core/define-event.ts'
import type { Outbox } from '../core/outbox-api.ts'

type Duration = string
// biome-ignore lint/suspicious/noExplicitAny: an outbox of any handles and any destinations.
type AnyOutbox = Outbox<any, any, any>

/** What a function that makes an outbox is told. */
export interface OutboxRequest {
  readonly name: string
  /** From `url` beside it, POSTHASTE_DATABASE_URL, OUTBOX_DB_URL or DATABASE_URL; null when nobody said one. */
  readonly databaseUrl: string | null
}

export type OutboxMaker = (request: OutboxRequest) => AnyOutbox | Promise<AnyOutbox>

export interface DestinationConfig {
  readonly concurrency?: number
  readonly batchSize?: number
  readonly ratePerSecond?: number
  readonly timeoutMs?: number | Duration
  readonly timeout?: Duration
}

export interface RetryConfig {
  readonly maxAttempts?: number | 'never' | 'Infinity'
  readonly baseMs?: number | Duration
  readonly base?: Duration
  readonly maxMs?: number | Duration
  readonly max?: Duration
  readonly multiplier?: number
  /** 0 to 1; 0.25 is ±25 %. `half` is 0.5, `none` is 0. */
  readonly jitter?: number | 'half' | 'none'
}

/**
 * Settings instead of those in the code. Each has the name, the default and the bounds of the option of `createOutbox`,
 * and may be a duration under its name without the unit: `pollInterval: '5s'`, `retentionDone: '168h'`.
 */
export interface OutboxConfig extends DestinationConfig {
  readonly serve?: string | readonly string[]
  readonly pollIntervalMs?: number | Duration
  readonly pollInterval?: Duration
  readonly pollIdleMaxMs?: number | Duration
  readonly pollIdleMax?: Duration
  readonly pollBatchSize?: number
  readonly pollerEnabled?: boolean
  readonly maintain?: boolean
  readonly migrate?: boolean
  readonly skipRecentMs?: number | Duration
  readonly skipRecent?: Duration
  readonly partitionWindowMs?: number | Duration
  readonly partitionWindow?: Duration
  readonly sweepIntervalMs?: number | Duration
  readonly sweepInterval?: Duration
  readonly laneLeaseMs?: number | Duration
  readonly laneLease?: Duration
  readonly laneRenewMs?: number | Duration
  readonly laneRenew?: Duration
  readonly coldQueueCapacity?: number
  readonly historyLimit?: number
  readonly hardDeadlineMs?: number | Duration
  readonly hardDeadline?: Duration
  readonly drainMs?: number | Duration
  readonly drain?: Duration
  readonly pendingIntervalMs?: number | Duration
  readonly pendingInterval?: Duration
  readonly retentionDoneHours?: number | Duration
  readonly retentionDone?: Duration
  /** `never` keeps dead deliveries for ever. */
  readonly retentionDeadHours?: number | Duration | null
  readonly retentionDead?: Duration
  readonly retentionDedupHours?: number | Duration
  readonly retentionDedup?: Duration
  readonly cleanupIntervalMs?: number | Duration
  readonly cleanupInterval?: Duration
  readonly cleanupBatchSize?: number
  readonly partitionAheadHours?: number | Duration
  readonly partitionAhead?: Duration
  readonly partitionIntervalMs?: number | Duration
  readonly partitionInterval?: Duration
  readonly retry?: RetryConfig
  readonly destinations?: Readonly<Record<string, DestinationConfig>>
}

/** An outbox with settings of its own, beside those for all. */
export interface OutboxEntry extends OutboxConfig {
  readonly outbox?: AnyOutbox | OutboxMaker
  /** Instead of `outbox`: the file that exports one as `default` or `outbox`. */
  readonly module?: string
  /** Instead of both: only looked at and operated on, because destinations are code. */
  readonly url?: string
  readonly schema?: string
  readonly prefix?: string
  readonly layout?: 'plain' | 'partitioned'
  readonly period?: 'day' | 'month'
}

export interface WorkerConfig {
  /** Processes. Default 1; 1 to 100. */
  readonly workers?: number
  /** Port of the health endpoints. Default none; 0 lets the system choose. */
  readonly healthPort?: number
  /** Default 127.0.0.1. */
  readonly healthHost?: string
  /** Default info. */
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error' | 'silent'
}

export interface PosthasteConfig {
  readonly outboxes: Readonly<Record<string, AnyOutbox | OutboxMaker | OutboxEntry>>
  /** Settings for all of them. */
  readonly outbox?: OutboxConfig
  readonly worker?: WorkerConfig
  /** Definitions for `posthaste catalog`, beside those that destinations name. */
  readonly events?: readonly AnyEventDefinition[] | Readonly<Record<string, AnyEventDefinition>>
  /** `stream` turns the outbox on, `event_store` off. */
  readonly subscription?: 'stream' | 'event_store' | 'eventStore'
  readonly enableOutbox?: boolean
}

/** Gives the file its types; it is checked when it is loaded. */
export const defineConfig = (config: PosthasteConfig): PosthasteConfig => config
