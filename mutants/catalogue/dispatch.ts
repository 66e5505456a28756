/** Defects between the queues and the settled outcome: order, bounds, rights, failures. */
import type { Mutant } from '../mutant.ts'

const QUEUES = 'src/core/flow/queues.ts'
const DISPATCHER = 'src/core/flow/dispatcher.ts'
const SETTLE = 'src/core/flow/settle.ts'
const BREAKER = 'src/core/policy/breaker.ts'

const DISPATCHER_TEST = 'src/core/flow/dispatcher.test.ts'
const SETTLE_TEST = 'src/core/flow/settle.test.ts'
const QUEUES_TEST = 'src/core/flow/queues.test.ts'

export const DISPATCH: readonly Mutant[] = [
  {
    name: 'key-order-by-arrival',
    file: QUEUES,
    find: 'while (at > 0 && (line.waiting[at - 1]?.delivery.seq ?? 0n) > seq) at -= 1',
    replace: '',
    breaks: 'deliveries of one key leave in their order',
    hunters: [QUEUES_TEST, 'simulator'],
  },
  {
    name: 'byte-bound-forgotten',
    file: QUEUES,
    find: 'this.#entries.size === 0 || this.#bytes + size <= this.#bounds.bytes',
    replace: 'true',
    breaks: 'memory is bounded in bytes, not only in rows',
    hunters: [QUEUES_TEST],
  },
  {
    name: 'stalled-key-goes-on',
    file: QUEUES,
    find: 'if (line.active !== null || line.stalledBy.size > 0 || line.running > 0) return',
    replace: 'if (line.active !== null || line.running > 0) return',
    breaks: 'nothing behind a failed head leaves before it',
    hunters: [QUEUES_TEST, 'simulator'],
  },
  {
    name: 'closed-key-forgotten',
    file: QUEUES,
    find: 'if (line.members.size === 0 && line.stalledBy.size === 0) this.#keys.delete(key)',
    replace: 'if (line.members.size === 0) this.#keys.delete(key)',
    breaks: 'a key stays closed until its failure is written, even when nothing of it is left in memory',
    hunters: [QUEUES_TEST, 'simulator'],
  },
  {
    name: 'leaving-rows-count-as-ahead',
    file: QUEUES,
    find: "entry !== undefined && entry.phase !== 'leaving'",
    replace: 'entry !== undefined',
    breaks: 'what is about to be given back is not in our hands',
    hunters: [QUEUES_TEST, 'simulator'],
  },
  {
    name: 'cold-starved',
    file: QUEUES,
    find: 'if (hot.length > 0 && (cold.length === 0 || this.#hotInARow < HOT_RUN)) return hot',
    replace: 'if (hot.length > 0) return hot',
    breaks: 'hot traffic never starves what waits in the database',
    hunters: [QUEUES_TEST],
  },
  {
    name: 'suspect-not-alone',
    file: QUEUES,
    find: 'if (next.delivery.alone && (this.#running > 0 || batch.length > 0)) break',
    replace: '',
    breaks: 'an event that may end the process takes nobody with it',
    hunters: [QUEUES_TEST, 'test/journeys/poison.test.ts'],
  },
  {
    name: 'right-not-checked-before-sending',
    file: DISPATCHER,
    find: 'if (this.#options.events.isRightValid(delivery)) return true',
    replace: 'return true',
    breaks: 'a right that ran out is not used',
    hunters: ['test/journeys/leases.test.ts', 'simulator'],
  },
  {
    name: 'release-forgotten',
    file: DISPATCHER,
    find: `    for (const delivery of this.queues.drop(({ right }) => right.kind === 'token')) {
      this.#settle(delivery, { kind: 'released' }, delivery.attempts)
    }`,
    replace: `    this.queues.drop(({ right }) => right.kind === 'token')`,
    breaks: 'a claim that will not be used goes back',
    hunters: [DISPATCHER_TEST],
  },
  {
    name: 'outage-spends-attempts',
    file: DISPATCHER,
    find: "if (result.verdict === 'outage' && !this.breaker.onOutage(delivery.id, now).charge) {",
    replace: "if (result.verdict === 'outage' && this.breaker.onOutage(delivery.id, now) === null) {",
    breaks: 'an outage says nothing about an event',
    hunters: ['test/journeys/outages.test.ts', 'simulator'],
  },
  {
    name: 'rate-not-given-back',
    file: DISPATCHER,
    find: 'this.#pace.giveBack(granted - batch.length)',
    replace: '',
    breaks: 'a rate limit counts what was sent, not what was looked for',
    hunters: [DISPATCHER_TEST],
  },
  {
    name: 'failed-batch-goes-on',
    file: DISPATCHER,
    find: "if (result.verdict !== 'done' && key !== null) failedKeys.add(key)",
    replace: '',
    breaks: 'what followed a failure in an ordered batch is not judged by itself',
    hunters: [DISPATCHER_TEST],
  },
  {
    name: 'key-open-after-lost-right',
    file: DISPATCHER,
    find: 'this.queues.stall(delivery)\n    this.breaker.forget(delivery.id)',
    replace: 'this.queues.complete(delivery)\n    this.breaker.forget(delivery.id)',
    breaks: 'nothing overtakes a head whose right ran out',
    hunters: ['test/journeys/order.test.ts', 'simulator'],
  },
  {
    name: 'lost-reported-as-written',
    file: SETTLE,
    find: "done(lost.has(settlement.delivery.id) ? 'lost' : 'written')",
    replace: "done('written')",
    breaks: 'whoever lost a right is told so',
    hunters: [SETTLE_TEST, 'simulator'],
  },
  {
    name: 'refused-batch-not-split',
    file: SETTLE,
    find: 'if (!transient && batch.length > 1) {',
    replace: 'if (!transient && batch.length > this.#options.maxBatch) {',
    breaks: 'one settlement that the database refuses does not hold up the others',
    hunters: [SETTLE_TEST],
  },
  {
    name: 'settle-buffer-unbounded',
    file: SETTLE,
    find: 'if (this.#unwritten < this.#options.maxBuffered || this.#abandoned) return null',
    replace: 'return null',
    breaks: 'workers wait while the database takes no outcomes',
    hunters: ['test/journeys/pressure.test.ts', 'test/journeys/outages.test.ts'],
  },
  {
    name: 'attempt-limit-one-too-many',
    file: 'src/core/flow/decide.ts',
    find: 'attempt >= policy.maxAttempts',
    replace: 'attempt > policy.maxAttempts',
    breaks: 'a delivery is tried as often as its policy says',
    hunters: ['test/journeys/failures.test.ts', 'simulator'],
  },
  {
    name: 'poison-never-buried',
    file: 'src/core/flow/quarantine.ts',
    find: "if (attempts <= maxAttempts) return { kind: 'send', delivery: spent }",
    replace: "if (attempts > 0) return { kind: 'send', delivery: spent }",
    breaks: 'an event that ends its process is buried after its limit',
    hunters: ['test/journeys/poison.test.ts', 'simulator'],
  },
  {
    name: 'breaker-many-probes',
    file: BREAKER,
    find: "return this.current === 'halfOpen' && this.probe === null ? 'one' : 'none'",
    replace: "return this.current === 'halfOpen' ? 'one' : 'none'",
    breaks: 'a destination that comes back is tried with one delivery at a time',
    hunters: ['src/core/policy/breaker.test.ts'],
  },
  {
    name: 'breaker-charges-the-innocent',
    file: BREAKER,
    find: 'if (earlier !== undefined && earlier.answersThen === this.answers) return false',
    replace: '',
    breaks: 'nobody is charged for an outage while nothing gets through',
    hunters: ['src/core/policy/breaker.test.ts'],
  },
  {
    name: 'rate-saved-up',
    file: 'src/core/policy/rate-limit.ts',
    find: 'tokens = Math.min(capacity(), tokens + earnedMs * perMs)',
    replace: 'tokens += earnedMs * perMs',
    breaks: 'a pause does not end in one blow',
    hunters: ['src/core/policy/rate-limit.test.ts'],
  },
  {
    name: 'retry-nonsense-believed',
    file: 'src/core/policy/retry.ts',
    find: "typeof delayMs === 'number' && delayMs >= 0",
    replace: "typeof delayMs === 'number'",
    breaks: 'a policy of the user that answers nonsense stops nothing',
    hunters: ['src/core/policy/retry.test.ts'],
  },
]
