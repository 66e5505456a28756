/** `posthaste/testing`: what an application's tests need, and the suite that a store of one's own must pass. */
export {
  checkInvariants,
  createMemoryDatabase,
  type MemoryDatabase,
  type MemoryDatabaseOptions,
  type MemoryStore,
  type MemoryStoreOptions,
  type MemoryTransaction,
  memoryStore,
} from '../stores/memory/index.ts'
export type { Drained, DrainOptions } from './drain.ts'
export type { Expectations, PartOf } from './expectations.ts'
export { createFakeRuntime, type FakeRuntime, type FakeRuntimeOptions } from './fake-runtime.ts'
export {
  type FailureKind,
  type FailureScript,
  failingDestination,
  recordingDestination,
  type ScriptedDestination,
  type ScriptedDestinationOptions,
} from './scripted-destination.ts'
export * from './suites/index.ts'
export { createTestOutbox, type TestOutbox, type TestOutboxOptions, type WaitOptions } from './test-outbox.ts'
