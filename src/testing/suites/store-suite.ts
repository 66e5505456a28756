/**
 * The conformance suite of the store SPI. Every store passes it, ours and those of third parties; the memory
 * store does too, because the simulator trusts it to behave like a database.
 */

import { runSuite } from './run-suite.ts'
import { backfillTopic } from './store/backfill.ts'
import { claimTopic } from './store/claim.ts'
import { clockTopic } from './store/clock.ts'
import { delaysTopic } from './store/delays.ts'
import { idempotencyTopic } from './store/idempotency.ts'
import { insertTopic } from './store/insert.ts'
import { inspectionTopic } from './store/inspection.ts'
import { keyLocksTopic } from './store/key-locks.ts'
import { lanesTopic } from './store/lanes.ts'
import { maintenanceTopic } from './store/maintenance.ts'
import { operationsTopic } from './store/operations.ts'
import { orderTopic } from './store/order.ts'
import { readTopic } from './store/read.ts'
import { registryTopic } from './store/registry.ts'
import { schemaTopic } from './store/schema.ts'
import { settleTopic } from './store/settle.ts'
import { suspectsTopic } from './store/suspects.ts'
import { targetsTopic } from './store/targets.ts'
import { transactionsTopic } from './store/transactions.ts'
import { unroutedTopic } from './store/unrouted.ts'
import { StoreFixture, type Topic } from './store-fixture.ts'
import type { StoreHarness, StoreSuiteOptions } from './store-harness.ts'

const TOPICS: readonly Topic[] = [
  schemaTopic,
  transactionsTopic,
  insertTopic,
  idempotencyTopic,
  keyLocksTopic,
  lanesTopic,
  readTopic,
  claimTopic,
  orderTopic,
  delaysTopic,
  settleTopic,
  suspectsTopic,
  unroutedTopic,
  registryTopic,
  inspectionTopic,
  operationsTopic,
  targetsTopic,
  backfillTopic,
  maintenanceTopic,
  clockTopic,
]

export const runStoreSuite = <Tx, E>(options: StoreSuiteOptions<Tx, E>): void => {
  runSuite<StoreFixture>(options, TOPICS, async (run) => {
    const harness = await options.create()
    try {
      await harness.store.schema.migrate()
      // The cases treat transactions as opaque, so the types of a particular driver end here.
      await run(new StoreFixture(harness as unknown as StoreHarness))
    } finally {
      await harness.dispose()
    }
  })
}
