/** Defects between publish and the hot queue: commit, savepoints, born claims. */
import type { Mutant } from '../mutant.ts'

const COMMIT = 'src/core/flow/commit.ts'
const RUNS = 'src/core/flow/transaction-runs.ts'

export const PUBLISH: readonly Mutant[] = [
  {
    name: 'dispatch-before-commit',
    file: RUNS,
    find: 'await beforeCommit(parts, here)\n        return result',
    replace: "await beforeCommit(parts, here)\n        here.scope.finish('committed')\n        return result",
    breaks: 'nothing is sent before its commit',
    hunters: ['test/publish/commit.test.ts', 'simulator'],
  },
  {
    name: 'unknown-commit-dispatched',
    file: COMMIT,
    find: "if (ending === 'committed') this.#offer(root)",
    replace: "if (ending !== 'rolledBack') this.#offer(root)",
    breaks: 'nothing is sent on the strength of a commit that nobody confirmed',
    hunters: ['test/publish/commit.test.ts', 'simulator'],
  },
  {
    name: 'savepoint-rolled-back-and-sent',
    file: RUNS,
    find: 'scope.discardFrame(frame)',
    replace: 'scope.mergeFrame(frame)',
    breaks: 'what a rolled-back savepoint published is forgotten',
    hunters: ['test/publish/savepoints.test.ts', 'simulator'],
  },
  {
    name: 'inner-savepoint-outlives-outer',
    file: COMMIT,
    find: 'for (const gone of this.#frames.splice(index)) {',
    replace: 'for (const gone of this.#frames.splice(index, 1)) {',
    breaks: 'a savepoint that is rolled back takes those along that were opened after it',
    hunters: ['src/core/flow/commit.test.ts'],
  },
  {
    name: 'insert-failed-and-sent',
    file: COMMIT,
    find: 'const hot = this.#doubt ? [] : root.hot',
    replace: 'const hot = root.hot',
    breaks: 'after a failed statement only the database knows what is stored',
    hunters: ['test/publish/commit.test.ts', 'simulator'],
  },
  {
    name: 'publish-not-awaited-lost',
    file: RUNS,
    find: 'scope.close(scope.root)\n  await scope.settle(scope.root)',
    replace: 'scope.close(scope.root)',
    breaks: 'a transaction does not end while a publish inside it is on its way',
    hunters: ['test/publish/unawaited.test.ts'],
  },
  {
    name: 'reconciler-by-old-patterns',
    file: 'src/core/flow/maintainers/reconciler.ts',
    find: '(await routes.refresh(store.registry))?.destinations',
    replace: 'routes.registered',
    breaks: 'the reconciler goes by patterns that are no older than what it found',
    hunters: ['src/core/flow/maintainers/reconciler.test.ts', 'simulator'],
  },
  {
    name: 'idempotent-event-born-claimed',
    file: 'src/core/flow/publish.ts',
    find: 'event.key === null && one.isNew',
    replace: 'event.key === null',
    breaks: 'what may not have been stored is not sent from memory',
    hunters: ['test/publish/prepare.test.ts', 'test/publish/stores.test.ts', 'simulator'],
  },
  {
    name: 'duplicate-sent-hot',
    file: 'src/core/flow/publish.ts',
    find: 'planned.hot.filter(({ event }) => !duplicates.has(event.id))',
    replace: 'planned.hot',
    breaks: 'an event that was there already is not sent a second time',
    hunters: ['test/publish/api.test.ts', 'test/publish/stores.test.ts', 'simulator'],
  },
  {
    name: 'hot-lease-from-the-answer',
    file: 'src/core/flow/hot-claims.ts',
    find: 'claim.until = now + this.#leaseMs',
    replace: 'claim.until = this.#runtime.monotonicNow() + this.#leaseMs',
    breaks: 'our idea of a claim never ends later than the database’s',
    hunters: ['src/core/flow/hot-claims.test.ts', 'simulator'],
  },
]
