export type { ClientHarness, ClientSuiteOptions } from './client-harness.ts'
export { runClientSuite } from './client-suite.ts'
export type {
  PublisherHarness,
  PublisherSettings,
  PublisherSuiteOptions,
  ReceivedMessage,
} from './publisher-harness.ts'
export { runPublisherSuite } from './publisher-suite.ts'
export type { CaseContext, SuiteOptions } from './run-suite.ts'
export type { StoreHarness, StoreSuiteOptions } from './store-harness.ts'
export { runStoreSuite } from './store-suite.ts'
