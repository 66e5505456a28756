/** What operators ask: the store's role behind the checks that are the same for every store. */
import { optionalText, refuse } from './check-options.ts'
import { type DeadGroups, groupDead } from './dead-groups.ts'
import { readGiven } from './errors.ts'
import { DELIVERY_STATUS, type DeliveryStatus } from './model/delivery.ts'
import { TUNED_NAMES, type TunedName } from './model/settings.ts'
import { refuseUnknown } from './model/unknown-names.ts'
import { isUuid } from './model/uuid.ts'
import { boundedNumber, oneOf } from './options.ts'
import { type EventStory, withSettlers } from './settled-by.ts'
import type {
  AuditEntry,
  BlockedKey,
  DeliveryPage,
  DeliveryQuery,
  Inspection,
  LaneView,
  MinuteStatistics,
  RegisteredDestination,
  Registry,
  WorkerView,
} from './spi/index.ts'

export interface AuditQuery {
  /** Most of them in the answer. Default 100; 1 to 10,000. */
  readonly limit?: number
}

export interface BlockedKeysQuery extends AuditQuery {
  readonly destination?: string
}

export interface DeadGroupsQuery {
  readonly destination?: string
  /** Most dead deliveries that are looked at, newest first. Default 10,000; 1 to 100,000. */
  readonly limit?: number
}

export interface LanesQuery {
  readonly destination?: string
}

/** A destination as it is registered, with what operators set; null is what each process's own options say. */
export interface DestinationView
  extends Pick<RegisteredDestination, 'name' | 'patterns' | 'startedAtMs' | 'paused' | 'ratePerSecond'> {
  readonly concurrency: number | null
  readonly batchSize: number | null
  readonly pollBatchSize: number | null
  readonly pollIntervalMs: number | null
  /** Live processes that cannot reach it, the longest first; as of their last renewal. */
  readonly openBreakers: readonly { readonly worker: string; readonly sinceMs: number }[]
}

/** Default: the newest 100 of all. */
export type ListQuery = Omit<DeliveryQuery, 'limit'> & AuditQuery

export interface StatisticsQuery {
  readonly destination?: string
  /** How far back. Default 60; 1 to 10,080, which is the week that is kept. */
  readonly minutes?: number
}

export interface Inspect
  extends Omit<Inspection, 'list' | 'event' | 'blockedKeys' | 'audit' | 'lanes' | 'statistics'> {
  list(query?: ListQuery): Promise<DeliveryPage>
  /** The event, all its deliveries (every run), who settled them, and their failed attempts. Null when unknown. */
  event(eventId: string): Promise<EventStory | null>
  /** Keys whose head keeps others waiting: retrying, blocked or parked. */
  blockedKeys(query?: BlockedKeysQuery): Promise<readonly BlockedKey[]>
  /** What operators did, newest first. */
  audit(query?: AuditQuery): Promise<readonly AuditEntry[]>
  /** Every registered destination and how it is set. */
  destinations(): Promise<readonly DestinationView[]>
  /** Who delivers what is in which lane, and until when that is certain. */
  lanes(query?: LanesQuery): Promise<readonly LaneView[]>
  /** Dead deliveries by destination, type and reason, most of them first. */
  deadGroups(query?: DeadGroupsQuery): Promise<DeadGroups>
  /** Per minute and destination, for charts; a maintainer records them once a minute. */
  statistics(query?: StatisticsQuery): Promise<readonly MinuteStatistics[]>
}

const DEFAULT_LIMIT = 100
const MOST_GROUPED = 10_000
const LIMITS = [1, 10_000] as const
/** Ages above this, about a hundred years, are slips of the pen. */
const OLDEST_MS = 100 * 365 * 24 * 3_600_000

const LIST_NAMES: ReadonlySet<string> = new Set<keyof ListQuery>([
  'status',
  'destination',
  'type',
  'key',
  'tenantId',
  'olderThanMs',
  'newerThanMs',
  'order',
  'limit',
  'after',
])
const BLOCKED_NAMES: ReadonlySet<string> = new Set<keyof BlockedKeysQuery>(['destination', 'limit'])
const DEAD_GROUPS_NAMES: ReadonlySet<string> = new Set<keyof DeadGroupsQuery>(['destination', 'limit'])
const LANES_NAMES: ReadonlySet<string> = new Set<keyof LanesQuery>(['destination'])
const AUDIT_NAMES: ReadonlySet<string> = new Set<keyof AuditQuery>(['limit'])
const STATISTICS_NAMES: ReadonlySet<string> = new Set<keyof StatisticsQuery>(['destination', 'minutes'])
const STATUSES = Object.keys(DELIVERY_STATUS) as DeliveryStatus[]

export const createInspect = (
  role: Inspection,
  registry: Pick<Registry, 'load'>,
  ready: () => Promise<void>,
): Inspect => {
  const afterReady = async <T>(ask: () => Promise<T>): Promise<T> => {
    await ready()
    return await ask()
  }
  /** Nothing has an id that is no UUID; what a database makes of such a text is its own business. */
  const byId = <T>(id: unknown, ask: (id: string) => Promise<T | null>): Promise<T | null> =>
    afterReady(async () => (isUuid(id) ? await ask(id.toLowerCase()) : null))
  return {
    async list(query = {}) {
      const checked = readGiven('list', () => checkList(query))
      return await afterReady(() => role.list(checked))
    },
    async blockedKeys(query = {}) {
      refuseUnknown('blockedKeys', query, BLOCKED_NAMES)
      const { destination, limit } = readGiven('blockedKeys', () => ({
        destination: optionalText('destination', query.destination),
        limit: limitOf(query),
      }))
      return await afterReady(() =>
        role.blockedKeys(destination === undefined ? { limit } : { destination, limit }),
      )
    },
    async audit(query = {}) {
      refuseUnknown('audit', query, AUDIT_NAMES)
      const limit = readGiven('audit', () => limitOf(query))
      return await afterReady(() => role.audit({ limit }))
    },
    async statistics(query = {}) {
      refuseUnknown('statistics', query, STATISTICS_NAMES)
      const checked = readGiven('statistics', () => {
        const destination = optionalText('destination', query.destination)
        const minutes = boundedNumber('minutes', query.minutes ?? 60, [1, 10_080])
        return destination === undefined ? { minutes } : { destination, minutes }
      })
      return await afterReady(() => role.statistics(checked))
    },
    event: (eventId) =>
      byId(eventId, async (id) => {
        const [detail, workers] = await Promise.all([role.event(id), role.workers()])
        return detail === null ? null : withSettlers(detail, workers)
      }),
    eventOfDelivery: (deliveryId) => byId(deliveryId, (id) => role.eventOfDelivery(id)),
    counts: () => afterReady(() => role.counts()),
    workers: () => afterReady(() => role.workers()),
    destinations: () =>
      afterReady(async () => {
        const [{ destinations }, workers] = await Promise.all([registry.load(), role.workers()])
        return destinations.map((registered) => toDestination(registered, workers))
      }),
    async lanes(query = {}) {
      refuseUnknown('lanes', query, LANES_NAMES)
      const destination = readGiven('lanes', () => optionalText('destination', query.destination))
      return await afterReady(() => role.lanes(destination === undefined ? {} : { destination }))
    },
    async deadGroups(query = {}) {
      refuseUnknown('deadGroups', query, DEAD_GROUPS_NAMES)
      const { destination, limit } = readGiven('deadGroups', () => ({
        destination: optionalText('destination', query.destination),
        limit: boundedNumber('limit', query.limit ?? MOST_GROUPED, [1, 100_000]),
      }))
      return await afterReady(() =>
        groupDead(role, destination === undefined ? { limit } : { destination, limit }),
      )
    },
  }
}

export const isAlive = ({ fenced, expiresInMs }: WorkerView): boolean => !fenced && expiresInMs > 0

/** Of live workers, the longest open first. */
export const openBreakersOf = (
  workers: readonly WorkerView[],
  destination: string,
): DestinationView['openBreakers'] =>
  workers
    .filter(isAlive)
    .flatMap(({ name, openBreakers }) =>
      openBreakers
        .filter((one) => one.destination === destination)
        .map(({ sinceMs }) => ({ worker: name, sinceMs })),
    )
    .sort((a, b) => a.sinceMs - b.sinceMs)

const toDestination = (
  registered: RegisteredDestination,
  workers: readonly WorkerView[],
): DestinationView => {
  const { name, patterns, startedAtMs, paused, ratePerSecond, settings } = registered
  const none = Object.fromEntries(TUNED_NAMES.map((option) => [option, null])) as Record<TunedName, null>
  const openBreakers = openBreakersOf(workers, name)
  return { name, patterns, startedAtMs, paused, ratePerSecond, ...none, ...settings, openBreakers }
}

const limitOf = ({ limit = DEFAULT_LIMIT }: AuditQuery): number => boundedNumber('limit', limit, LIMITS)

const checkList = (query: ListQuery): DeliveryQuery => {
  refuseUnknown('list', query, LIST_NAMES)
  const { status, order, olderThanMs, newerThanMs } = query
  if (status !== undefined) checkStatus(status)
  if (order !== undefined) oneOf('order', order, ['newest', 'oldest'])
  if (olderThanMs !== undefined) boundedNumber('olderThanMs', olderThanMs, [0, OLDEST_MS])
  if (newerThanMs !== undefined) boundedNumber('newerThanMs', newerThanMs, [0, OLDEST_MS])
  for (const name of ['destination', 'type', 'key', 'tenantId', 'after'] as const)
    optionalText(name, query[name])
  // What is given as undefined is left out, as if nothing was said.
  const said = Object.entries(query).filter(([, value]) => value !== undefined && value !== null)
  return { ...Object.fromEntries(said), limit: limitOf(query) }
}

const checkStatus = (status: unknown): void => {
  if (!Array.isArray(status)) refuse('status', status, `must be a list of ${STATUSES.join(', ')}`)
  else for (const [index, one] of status.entries()) oneOf(`status[${index}]`, one, STATUSES)
}
