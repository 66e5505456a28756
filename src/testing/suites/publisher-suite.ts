/**
 * The conformance suite of publishers: what a destination has to do with deliveries, whatever carries them. Every
 * publisher passes it, ours and those of third parties, on the real broker.
 */
import assert from 'node:assert/strict'
import { batchesTopic } from './publisher/batches.ts'
import { closingsTopic } from './publisher/closings.ts'
import { contentTopic } from './publisher/content.ts'
import { endingsTopic } from './publisher/endings.ts'
import { faultsTopic } from './publisher/faults.ts'
import { PublisherFixture, type PublisherTopic } from './publisher-fixture.ts'
import type { PublisherSuiteOptions } from './publisher-harness.ts'
import { runSuite } from './run-suite.ts'

const TOPICS: readonly PublisherTopic[] = [
  contentTopic,
  batchesTopic,
  faultsTopic,
  closingsTopic,
  endingsTopic,
]

/** Nobody waits for such a promise, so Node would end the application for it. */
const withoutStrayRejections = async (work: () => Promise<void>): Promise<void> => {
  const stray: unknown[] = []
  const note = (error: unknown): void => void stray.push(error)
  process.on('unhandledRejection', note)
  try {
    await work()
    // Rejections are announced when a turn of the event loop has ended.
    await new Promise((resolve) => setImmediate(resolve))
  } finally {
    process.off('unhandledRejection', note)
  }
  assert.deepEqual(stray, [], 'rejections that nobody waits for')
}

export const runPublisherSuite = (options: PublisherSuiteOptions): void => {
  runSuite<PublisherFixture>(options, TOPICS, async (run) => {
    const harness = await options.create()
    try {
      await withoutStrayRejections(async () => {
        const fixture = new PublisherFixture(harness)
        try {
          await run(fixture)
        } finally {
          await fixture.close()
        }
      })
    } finally {
      await harness.dispose()
    }
  })
}
