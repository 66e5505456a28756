/** `posthaste/config`: what `posthaste.config.ts` is written with, and how programs load it. */
export type { ResolvedSetting } from './apply.ts'
export {
  type DestinationConfig,
  defineConfig,
  type OutboxConfig,
  type OutboxEntry,
  type OutboxMaker,
  type OutboxRequest,
  type PosthasteConfig,
  type RetryConfig,
  type WorkerConfig,
} from './define-config.ts'
export { ConfigError } from './errors.ts'
export {
  type LoadedConfig,
  type LoadedOutbox,
  type LoadOptions,
  loadConfig,
  type WorkerSettings,
} from './load-config.ts'
export type { Origin } from './settings.ts'
