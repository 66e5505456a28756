/**
 * Counts what really happened: a fault that never strikes, or a path of the core that no history takes any more,
 * would make the simulator look at less than it says. A test asks that each of these happens.
 */
import type {
  ClaimedHead,
  CleanupResult,
  InsertRequest,
  LaneSurvey,
  ReadResult,
  SettleRequest,
  SettleResult,
  TakenLane,
} from '../src/core/spi/index.ts'
import type { World } from './world.ts'

export const PATHS = [
  // Transactions.
  'commitUnknownApplied',
  'commitUnknownLost',
  'commitRolledBack',
  'savepointUndone',
  'lateCommit',
  'lockWait',
  'keyDeadlock',
  'deduplicated',
  // Lanes and rights.
  'takeover',
  'laneGivenUp',
  'fencedWorker',
  'staleStatement',
  'staleSettle',
  'repeatedSettle',
  // The way of a delivery.
  'bornClaimed',
  'claimedById',
  'claimedBehind',
  'extended',
  'extensionLost',
  'hotOverflow',
  'wokenUp',
  'sweptLate',
  'activated',
  'held',
  'promoted',
  'released',
  'retried',
  'buried',
  'blockedKey',
  'suspected',
  'quarantined',
  'breakerOpened',
  'breakerClosed',
  'breakerTold',
  // Routes.
  'expanded',
  'expansionRefused',
  'reconciled',
  'mixedVersions',
  // Operators and ends.
  'redriven',
  'replayed',
  'discarded',
  'edited',
  'backfilled',
  'cleanedUp',
  'stoppedClean',
  'stoppedUnclean',
] as const

export type Path = (typeof PATHS)[number]

type Meter = (world: World, request: unknown, result: unknown) => void

const counted =
  (path: Path): Meter =>
  (world, _request, result) =>
    world.count(path, Array.isArray(result) ? result.length : Number(result))

/** What the answer to a statement says about the path that was taken. */
const METERS: Readonly<Record<string, Meter>> = {
  insert: (world, request) => {
    const { deliveries } = request as InsertRequest
    world.count('bornClaimed', deliveries.filter(({ token }) => token !== null).length)
  },
  'lanes.take': (world, _request, result) =>
    world.count('takeover', (result as TakenLane[]).filter(({ clean }) => !clean).length),
  'lanes.survey': (world, _request, result) =>
    world.count('fencedWorker', (result as LaneSurvey).alive ? 0 : 1),
  'lanes.renew': (world, request, result) => {
    world.count('fencedWorker', result === true ? 0 : 1)
    const worker = world.database.workers.get(request as string)
    world.count('breakerTold', result === true ? (worker?.openBreakers.length ?? 0) : 0)
  },
  'lanes.giveUp': (world) => world.count('laneGivenUp'),
  'queue.read': (world, _request, result) =>
    world.count('sweptLate', (result as ReadResult).swept?.length ?? 0),
  'queue.claim': (world, _request, result) => {
    const heads = result as ClaimedHead[]
    const behind = heads.filter(({ ahead }) => ahead.length > 0).length
    world.count('claimedById', heads.length - behind)
    world.count('claimedBehind', behind)
  },
  'queue.extend': (world, request, result) => {
    const lost = (result as string[]).length
    world.count('extensionLost', lost)
    world.count('extended', (request as unknown[]).length - lost)
  },
  'queue.activate': counted('activated'),
  'queue.hold': counted('held'),
  'queue.suspect': counted('suspected'),
  'queue.expand': (world, _request, result) => world.count(result === true ? 'expanded' : 'expansionRefused'),
  'queue.settle': (world, request, result) => {
    for (const { outcome } of (request as SettleRequest).settlements) {
      if (outcome.kind === 'released') world.count('released')
      if (outcome.kind === 'retry') world.count('retried')
      if (outcome.kind === 'dead') world.count('buried')
    }
    world.count('promoted', (result as SettleResult).promoted.length)
  },
  'registry.reconcile': counted('reconciled'),
  'operations.redrive': counted('redriven'),
  'operations.replay': counted('replayed'),
  'operations.discard': counted('discarded'),
  'operations.edit': (world) => world.count('edited'),
  'operations.backfill': counted('backfilled'),
  'maintenance.cleanup': (world, _request, result) => {
    const { done, discarded, dead, events } = result as CleanupResult
    world.count('cleanedUp', done + discarded + dead + events)
  },
}

/** `args` are those of the statement; `insert` has its request in the second place. */
export const measure = (world: World, name: string, args: readonly unknown[], result: unknown): void =>
  METERS[name]?.(world, args[name === 'insert' ? 1 : 0], result)
