export { createMemoryDatabase, type MemoryDatabase, type MemoryDatabaseOptions } from './database.ts'
export { checkInvariants } from './invariants.ts'
export { type MemoryStore, type MemoryStoreOptions, memoryStore } from './memory-store.ts'
export type { MemoryTransaction } from './transactions.ts'
