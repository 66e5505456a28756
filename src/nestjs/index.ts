/** `posthaste/nestjs`: an outbox that lives with a Nest application. */
export {
  OutboxHealth,
  type OutboxHealthOptions,
  type OutboxHealthReport,
  type OutboxHealthResult,
} from './health.ts'
export { OnOutboxEvent, type OnOutboxEventOptions } from './on-outbox-event.ts'
export type {
  OutboxModuleAsyncOptions,
  OutboxModuleOptions,
  OutboxModuleSettings,
  OutboxOptionsFactory,
  OutboxSource,
} from './options.ts'
export { OutboxModule } from './outbox-module.ts'
export { getOutboxHealthToken, getOutboxToken, InjectOutbox, InjectOutboxHealth } from './tokens.ts'
