/** What operators ask: the store's role behind the checks that are the same for every store. */
import { optionalText, refuse } from './check-options.ts'
import { readGiven } from './errors.ts'
import { DELIVERY_STATUS, type DeliveryStatus } from './model/delivery.ts'
import { refuseUnknown } from './model/unknown-names.ts'
import { isUuid } from './model/uuid.ts'
import { boundedNumber, oneOf } from './options.ts'
import type {
  AuditEntry,
  BlockedKey,
  DeliveryPage,
  DeliveryQuery,
  Inspection,
  MinuteStatistics,
} from './spi/index.ts'

export interface AuditQuery {
  /** Most of them in the answer. Default 100; 1 to 10,000. */
  readonly limit?: number
}

export interface BlockedKeysQuery extends AuditQuery {
  readonly destination?: string
}

/** Default: the newest 100 of all. */
export type ListQuery = Omit<DeliveryQuery, 'limit'> & AuditQuery

export interface StatisticsQuery {
  readonly destination?: string
  /** How far back. Default 60; 1 to 10,080, which is the week that is kept. */
  readonly minutes?: number
}

export interface Inspect extends Omit<Inspection, 'list' | 'blockedKeys' | 'audit' | 'statistics'> {
  list(query?: ListQuery): Promise<DeliveryPage>
  /** Keys whose head keeps others waiting: retrying, blocked or parked. */
  blockedKeys(query?: BlockedKeysQuery): Promise<readonly BlockedKey[]>
  /** What operators did, newest first. */
  audit(query?: AuditQuery): Promise<readonly AuditEntry[]>
  /** Per minute and destination, for charts; a maintainer records them once a minute. */
  statistics(query?: StatisticsQuery): Promise<readonly MinuteStatistics[]>
}

const DEFAULT_LIMIT = 100
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
const AUDIT_NAMES: ReadonlySet<string> = new Set<keyof AuditQuery>(['limit'])
const STATISTICS_NAMES: ReadonlySet<string> = new Set<keyof StatisticsQuery>(['destination', 'minutes'])
const STATUSES = Object.keys(DELIVERY_STATUS) as DeliveryStatus[]

export const createInspect = (role: Inspection, ready: () => Promise<void>): Inspect => {
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
    event: (eventId) => byId(eventId, (id) => role.event(id)),
    eventOfDelivery: (deliveryId) => byId(deliveryId, (id) => role.eventOfDelivery(id)),
    counts: () => afterReady(() => role.counts()),
    workers: () => afterReady(() => role.workers()),
  }
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
