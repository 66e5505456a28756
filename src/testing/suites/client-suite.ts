/**
 * The conformance suite of clients: publishing in the transactions of a data-access library. Every client passes it,
 * ours and those of third parties, with the real library on every database that it supports.
 */
import { besideTopic } from './client/beside.ts'
import { contentTopic } from './client/content.ts'
import { costTopic } from './client/cost.ts'
import { endingsTopic } from './client/endings.ts'
import { handlesTopic } from './client/handles.ts'
import { lateTopic } from './client/late.ts'
import { nestingTopic } from './client/nesting.ts'
import { nestingBesideTopic } from './client/nesting-beside.ts'
import { ownTopic } from './client/own.ts'
import { transactionTopic } from './client/transaction.ts'
import { ClientFixture, type ClientTopic } from './client-fixture.ts'
import type { ClientHarness, ClientSuiteOptions } from './client-harness.ts'
import { runSuite } from './run-suite.ts'

const TOPICS: readonly ClientTopic[] = [
  transactionTopic,
  nestingTopic,
  nestingBesideTopic,
  endingsTopic,
  ownTopic,
  lateTopic,
  besideTopic,
  handlesTopic,
  contentTopic,
  costTopic,
]

export const runClientSuite = <Tx, E>(options: ClientSuiteOptions<Tx, E>): void => {
  runSuite<ClientFixture>(options, TOPICS, async (run) => {
    const harness = await options.create()
    try {
      // The cases treat transactions as opaque, so the types of a particular library end here.
      const fixture = new ClientFixture(harness as unknown as ClientHarness)
      try {
        await fixture.outbox.start()
        await run(fixture)
      } finally {
        await fixture.outbox.close()
      }
    } finally {
      await harness.dispose()
    }
  })
}
