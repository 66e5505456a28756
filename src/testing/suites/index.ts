export type { StoreHarness, StoreSuiteOptions } from './store-harness.ts'
export { runStoreSuite } from './store-suite.ts'
