/** What operators change, add and send again. */
import type { Mutant } from '../mutant.ts'

const BACKFILL = 'src/core/backfill.ts'
const RETIRE_TEST = 'test/journeys/retire.test.ts'
const BACKFILL_TEST = 'test/journeys/backfill.test.ts'
const TUNING_TEST = 'test/journeys/tuning.test.ts'

export const OPERATORS: readonly Mutant[] = [
  {
    name: 'backfill-brings-what-is-heard-anyway',
    file: BACKFILL,
    find: 'hearing.every(({ from }) => seq <= from)',
    replace: 'true',
    breaks: 'what a destination heard by itself is not sent again after it was cleaned up',
    hunters: [BACKFILL_TEST],
  },
  {
    name: 'backfill-passes-open-transactions',
    file: BACKFILL,
    find: 'if (after >= upTo && unsettled !== null) {',
    replace: 'if (after > upTo && unsettled !== null) {',
    breaks: 'a back-fill is not complete while an older transaction is open',
    hunters: [BACKFILL_TEST],
  },
  {
    name: 'backfill-without-a-pace',
    file: BACKFILL,
    find: 'if (waitMs > 0) await pauseFor(runtime, waitMs, signal)',
    replace: 'if (waitMs < 0) await pauseFor(runtime, waitMs, signal)',
    breaks: 'a back-fill keeps its pace',
    hunters: [BACKFILL_TEST],
  },
  {
    name: 'served-destination-retired',
    file: 'src/core/retire.ts',
    find: 'isAlive(worker) && worker.destinations.includes(name)',
    replace: '!isAlive(worker) && worker.destinations.includes(name)',
    breaks: 'what a live process serves is not retired',
    hunters: [RETIRE_TEST],
  },
  {
    name: 'retired-destination-stays-deaf',
    file: 'src/core/flow/routes.ts',
    find: 'deaf.has(name) && isServed(name)',
    replace: 'deaf.has(name) && !isServed(name)',
    breaks: 'whoever serves a destination that was retired meanwhile brings it back',
    hunters: [RETIRE_TEST],
  },
  {
    name: 'retired-destination-goes-on-collecting',
    file: 'src/core/retire.ts',
    find: 'await store.registry.declare([{ name, patterns: [] }], by)',
    replace: '',
    breaks: 'a destination that was retired hears nothing any more',
    hunters: [RETIRE_TEST],
  },
  {
    name: 'steps-choose-anew',
    file: 'src/core/bulk.ts',
    find: '{ ...target, deliveryIds, limit: size }',
    replace: '{ ...target, limit: size }',
    breaks: 'a replay in steps acts on what was chosen when it began',
    hunters: ['test/journeys/bulk.test.ts'],
  },
  {
    name: 'tuned-poller-sleeps-on',
    file: 'src/core/flow/destination-flow.ts',
    find: 'this.poller.retuned()',
    replace: '',
    breaks: 'a pause that began with the old interval is not waited out',
    hunters: [TUNING_TEST],
  },
  {
    name: 'tuned-workers-wait',
    file: 'src/core/flow/dispatcher.ts',
    find: 'this.#active < tuning.concurrency) {',
    replace: 'this.#active < this.#options.destination.concurrency) {',
    breaks: 'the number of workers is the operator’s',
    hunters: [TUNING_TEST],
  },
  {
    name: 'settings-of-others-forgotten',
    file: 'src/core/model/settings.ts',
    find: 'const after: Record<string, unknown> = { ...parse(stored) }',
    replace: 'const after: Record<string, unknown> = { ...readSettings(stored) }',
    breaks: 'what another release has set stays',
    hunters: ['src/core/model/settings.test.ts'],
  },
]
