/**
 * The conformance suite of the store SPI. Every store passes it, ours and those of third parties; the memory
 * store does too, because the simulator trusts it to behave like a database.
 */

import { Inapplicable } from './publishing-fixture.ts'
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
import { transactionsTopic } from './store/transactions.ts'
import { unroutedTopic } from './store/unrouted.ts'
import { StoreFixture, type Topic } from './store-fixture.ts'
import type { CaseContext, StoreHarness, StoreSuiteOptions } from './store-harness.ts'

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
  maintenanceTopic,
  clockTopic,
]

export const runStoreSuite = <Tx, E>(options: StoreSuiteOptions<Tx, E>): void => {
  const reasons = new Map((options.skip ?? []).map(({ test, reason }) => [test, reason]))
  const titles = new Set(TOPICS.flatMap((topic) => Object.keys(topic.cases)))
  const unknown = [...reasons.keys()].filter((title) => !titles.has(title))
  if (unknown.length > 0) throw new Error(`the suite has no test called ${unknown.join(', ')}`)
  for (const topic of TOPICS) {
    options.describe(topic.title, () => {
      for (const [title, run] of Object.entries(topic.cases)) {
        const reason = reasons.get(title)
        // A skipped case stays in the report together with its reason, so that nobody forgets it.
        if (reason !== undefined) options.it(title, async (context) => context?.skip?.(reason))
        else options.it(title, (context) => runCase(options, run, context))
      }
    })
  }
}

const runCase = async <Tx, E>(
  options: StoreSuiteOptions<Tx, E>,
  run: (t: StoreFixture) => Promise<void>,
  context: CaseContext | undefined,
): Promise<void> => {
  const harness = await options.create()
  let inapplicable: string | null = null
  try {
    await harness.store.schema.migrate()
    // The cases treat transactions as opaque, so the types of a particular driver end here.
    await run(new StoreFixture(harness as unknown as StoreHarness))
  } catch (error) {
    if (!(error instanceof Inapplicable)) throw error
    inapplicable = error.message
  } finally {
    await harness.dispose()
  }
  if (inapplicable !== null) context?.skip?.(inapplicable)
}
