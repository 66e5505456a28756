/** How an outbox is doing: asked from its database, the same from every machine. */
import type { LoadedOutbox } from '../config/load-config.ts'
import { type DestinationView, isAlive, openBreakersOf } from '../core/inspection.ts'
import { UNROUTED } from '../core/model/delivery.ts'
import type {
  BlockedKey,
  DestinationCounts,
  LaneView,
  RegisteredDestination,
  WorkerView,
} from '../core/spi/index.ts'

/**
 * `serving`: live processes have lanes of it. `taking over`: some serve it, but its lanes are still those of one whose lease
 * ran out. `unserved`: nobody serves it, so its deliveries wait. `retired`: it hears nothing any more.
 */
export type DestinationState = 'serving' | 'taking over' | 'paused' | 'unserved' | 'retired'

export interface LeftLanes {
  readonly worker: string
  readonly lanes: number
}

export interface DestinationOverview extends DestinationCounts {
  readonly state: DestinationState
  readonly ratePerSecond: number | null
  /** Those that live processes have. */
  readonly lanes: number
  /** Those of processes that are gone, until a live one may take them. */
  readonly leftLanes: readonly LeftLanes[]
  /** Live processes that cannot reach it, the longest first. */
  readonly openBreakers: DestinationView['openBreakers']
  /** Since the last look; null at the first one. */
  readonly donePerSecond: number | null
}

export interface OutboxOverview {
  readonly name: string
  readonly store: string
  readonly atMs: number
  readonly destinations: readonly DestinationOverview[]
  readonly workers: readonly WorkerView[]
  readonly blockedKeys: readonly BlockedKey[]
}

const BLOCKED_SHOWN = 10

const EMPTY = { pending: 0, done: 0, retry: 0, dead: 0, discarded: 0, scheduled: 0, held: 0 }

const speed = (now: DestinationCounts, before: OutboxOverview | null, atMs: number): number | null => {
  const last = before?.destinations.find(({ destination }) => destination === now.destination)
  if (before === null || last === undefined || atMs <= before.atMs) return null
  const more = now.counts.done - last.counts.done
  // Cleanup takes away what was counted before.
  return more < 0 ? null : (more * 1_000) / (atMs - before.atMs)
}

/** Whose lanes these are: of the living, how many; of the others, by whom they were left. */
export const ownersOf = (
  lanes: readonly LaneView[],
  workers: readonly WorkerView[],
): { readonly live: number; readonly left: readonly LeftLanes[] } => {
  const amounts = new Map<string, number>()
  for (const { workerId } of lanes)
    if (workerId !== null) amounts.set(workerId, (amounts.get(workerId) ?? 0) + 1)
  const owners = workers.flatMap((worker) => {
    const amount = amounts.get(worker.workerId)
    return amount === undefined ? [] : [{ worker: worker.name, lanes: amount, isLive: isAlive(worker) }]
  })
  return {
    live: owners.filter(({ isLive }) => isLive).reduce((sum, one) => sum + one.lanes, 0),
    left: owners.filter(({ isLive }) => !isLive).map(({ isLive: _, ...one }) => one),
  }
}

const stateOf = (
  registered: RegisteredDestination | undefined,
  isServed: boolean,
  { live, left }: ReturnType<typeof ownersOf>,
): DestinationState => {
  if (registered?.patterns.length === 0 && !isServed) return 'retired'
  if (registered?.paused === true) return 'paused'
  if (!isServed) return 'unserved'
  return live === 0 && left.length > 0 ? 'taking over' : 'serving'
}

const isEmpty = ({ counts }: DestinationCounts): boolean =>
  Object.values(counts).every((amount) => amount === 0)

export const takeOverview = async (
  { name, outbox, host }: LoadedOutbox,
  before: OutboxOverview | null,
): Promise<OutboxOverview> => {
  const atMs = performance.timeOrigin + performance.now()
  const [counts, workers, lanes, blockedKeys, { destinations }] = await Promise.all([
    outbox.inspect.counts(),
    outbox.inspect.workers(),
    outbox.inspect.lanes(),
    outbox.inspect.blockedKeys({ limit: BLOCKED_SHOWN }),
    host.registered(),
  ])
  const alive = workers.filter(isAlive)
  const named = new Set([
    ...destinations.map((one) => one.name),
    ...counts.map(({ destination }) => destination),
  ])
  const all = [...named].map((destination): DestinationOverview => {
    const found = counts.find((one) => one.destination === destination)
    const now = found ?? { destination, counts: EMPTY, oldestLagMs: null }
    const registered = destinations.find((one) => one.name === destination)
    // What nobody has routed yet is the business of any worker that has a lane of anything.
    const isUnrouted = destination === UNROUTED
    const owners = ownersOf(
      isUnrouted ? lanes : lanes.filter((lane) => lane.destination === destination),
      workers,
    )
    const isServed = isUnrouted
      ? alive.length > 0
      : alive.some((worker) => worker.destinations.includes(destination))
    return {
      ...now,
      state: stateOf(registered, isServed, owners),
      ratePerSecond: registered?.ratePerSecond ?? null,
      lanes: isUnrouted ? 0 : owners.live,
      leftLanes: isUnrouted ? [] : owners.left,
      openBreakers: openBreakersOf(workers, destination),
      donePerSecond: speed(now, before, atMs),
    }
  })
  return {
    name,
    store: host.store.name,
    atMs,
    workers,
    blockedKeys,
    // Its row stays in the registry for ever.
    destinations: all.filter((one) => one.state !== 'retired' || !isEmpty(one)),
  }
}

/** For a worker. What is held waits for the head of its key, which is counted itself, or is dead and waits for an operator. */
export const waitingOf = ({ pending, retry }: DestinationCounts['counts']): number => pending + retry

/** As it can be pasted: without a reason it is refused. */
export const retireText = (destination: string): string => `posthaste retire ${destination} --reason "…"`

/** What to do about a destination that nobody hears here. */
export const listenText = (destination: string): string =>
  `start the process that has its listeners, or register one where the outbox is made: outbox.on('${destination}', …)`

/** What to do about a destination that nobody serves. A worker refuses one that its configuration does not declare, or does not hear. */
export const serveText = ({ host }: LoadedOutbox, destination: string): string => {
  const declared = host.declared()
  if (host.unheard().includes(destination)) return listenText(destination)
  if (declared.some(({ name }) => name === destination))
    return `posthaste worker --destinations ${destination}`
  // With an address alone nobody knows what the configurations of the workers say.
  return declared.length === 0
    ? `start a worker that declares it, or ${retireText(destination)} if none does any more`
    : `declare it again, or ${retireText(destination)}`
}

/** The name that people see: of what is not routed yet, too. */
export const destinationText = (destination: string): string =>
  destination === UNROUTED ? '(not routed yet)' : destination
