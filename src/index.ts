/** Public API of the core. Stores, clients and publishers have subpaths of their own. */
export type { Backfilled, BackfillOptions, BackfillProgress } from './core/backfill.ts'
export type { Act, BulkAct, BulkProgress } from './core/bulk.ts'
export type { DeadGroup, DeadGroups } from './core/dead-groups.ts'
export {
  type AnyEventDefinition,
  type Draft,
  type DraftOptions,
  defineEvent,
  type EventDefinition,
  type EventDraft,
  ofJson,
  type PlainEvent,
} from './core/define-event.ts'
export * from './core/errors.ts'
export type {
  Aggregate,
  OutboxTransaction,
  TransactionalPublisher,
  TxHandle,
} from './core/flow/publishing.ts'
export type { Batch, PulledDelivery } from './core/flow/pull.ts'
export { InFlightTracker } from './core/in-flight-tracker.ts'
export type {
  AuditQuery,
  BlockedKeysQuery,
  DeadGroupsQuery,
  DestinationView,
  Inspect,
  LanesQuery,
  ListQuery,
  StatisticsQuery,
} from './core/inspection.ts'
export {
  type Listener,
  type ListenerContext,
  type ListenerPattern,
  ListenerRegistry,
} from './core/listeners.ts'
export {
  type AttemptFailure,
  DELIVERY_STATUS,
  type Delivery,
  type DeliverySource,
  type DeliveryStatus,
  type EventRecord,
  type Headers,
  isUuid,
  LANES,
  laneOf,
  type OutboxEvent,
  type Outcome,
  type PayloadData,
  type Right,
  statusName,
  UNROUTED,
} from './core/model/index.ts'
export type { CleanupOptions, DestinationName, Operator, Target, Tune } from './core/operator.ts'
export {
  DEFAULTS,
  type DeadHeadPolicy,
  type DestinationOptions,
  type EventPattern,
  type FailureReport,
  type OutboxOptions,
} from './core/options.ts'
export { createOutbox } from './core/outbox.ts'
export type { Flushed, Outbox, ProcessedOnce } from './core/outbox-api.ts'
export { createClient, Dispatcher, type DispatcherOptions, Poller, type PollerOptions } from './core/parts.ts'
export type { BreakerOptions } from './core/policy/breaker.ts'
export type { FailureClassifier, FailureInfo, Verdict } from './core/policy/failure.ts'
export { exponential, fixed, linear, type RetryPolicy, retryForType, steps } from './core/policy/retry.ts'
export type { Retired } from './core/retire.ts'
export type {
  AttemptMessage,
  BreakerMessage,
  LanesMessage,
  PublishMessage,
  ReadMessage,
  SettleMessage,
} from './core/runtime/channels.ts'
export { createJsonLogger, SILENT_LOGGER } from './core/runtime/logger.ts'
export { type CountingMetrics, createCountingMetrics, NOOP_METRICS } from './core/runtime/metrics.ts'
export { createConsoleLogger, createSystemRuntime } from './core/runtime/system-runtime.ts'
export type { DeliveryStory, EventStory, SettledBy } from './core/settled-by.ts'
export type * from './core/spi/index.ts'
export { type StandardSchema, typeOnly } from './core/standard-schema.ts'
