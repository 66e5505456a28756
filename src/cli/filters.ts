/** Which deliveries are meant: the same flags wherever that is asked. */
import { parseDuration } from '../config/duration.ts'
import type { LoadedOutbox } from '../config/load-config.ts'
import { ERROR_CODES, OutboxError } from '../core/errors.ts'
import type { ListQuery } from '../core/inspection.ts'
import { UNROUTED } from '../core/model/delivery.ts'
import { hintFor } from '../core/model/unknown-names.ts'
import { isUuid } from '../core/model/uuid.ts'
import type { DeliveryStory, EventStory } from '../core/settled-by.ts'
import type { DeliveryView } from '../core/spi/index.ts'
import type { Flag } from './command.ts'
import type { Session } from './session.ts'

export const FILTER_FLAGS: readonly Flag[] = [
  { name: 'destination', value: 'NAME', about: 'only for this destination' },
  { name: 'type', value: 'TYPE', about: 'only events of this type' },
  { name: 'key', value: 'KEY', about: 'only events with this key' },
  { name: 'tenant', value: 'ID', about: 'only events of this tenant' },
]

export const ACT_FLAGS: readonly Flag[] = [
  { name: 'reason', value: 'TEXT', about: 'why, for the audit trail' },
  { name: 'actor', value: 'NAME', about: 'who, for the audit trail (default user@host)' },
]

/** For what somebody will ask about. */
export const withReason = (flags: readonly Flag[]): readonly Flag[] =>
  flags.map((flag) =>
    flag.name === 'reason' ? { ...flag, about: 'why, for the audit trail; needed' } : flag,
  )

export interface Filter {
  readonly destination?: string
  readonly type?: string
  readonly key?: string
  readonly tenantId?: string
}

export const filterOf = (session: Session): Filter => {
  const given = {
    destination: session.text('destination'),
    type: session.text('type'),
    key: session.text('key'),
    tenantId: session.text('tenant'),
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
}

export const durationFlag = (session: Session, flag: string): number | undefined => {
  const text = session.text(flag)
  if (text === undefined) return undefined
  const ms = parseDuration(text)
  return ms ?? session.refuse(`--${flag} must be a duration such as 10m, 24h or 7d, not "${text}"`)
}

/** The registry knows the destinations of all processes, not only those of this configuration. */
export const outboxesWith = async (
  session: Session,
  destination: string,
): Promise<readonly LoadedOutbox[]> => {
  const known = new Set<string>()
  const found: LoadedOutbox[] = []
  for (const loaded of await session.outboxes()) {
    const { destinations } = await loaded.host.registered()
    for (const { name } of destinations) known.add(name)
    if (destinations.some(({ name }) => name === destination)) found.push(loaded)
  }
  if (found.length > 0) return found
  if ((await session.outboxes()).some(({ host }) => host.declared().some(({ name }) => name === destination)))
    throw new OutboxError(
      ERROR_CODES.notFound,
      `"${destination}" is declared here, but no process that declares it was started yet; posthaste worker registers it`,
    )
  const hint = known.size === 0 ? '; no process has declared any yet' : hintFor(destination, known)
  throw new OutboxError(ERROR_CODES.notFound, `there is no destination "${destination}"${hint}`)
}

/** Nothing was found: because nothing is there, or because there is no such destination? */
export const requireDestination = async (session: Session): Promise<void> => {
  const destination = session.text('destination')
  if (destination === undefined || destination === UNROUTED) return
  const isDeclared = (await session.outboxes()).some(({ host }) =>
    host.declared().some(({ name }) => name === destination),
  )
  if (!isDeclared) await outboxesWith(session, destination)
}

const PAGE = 1_000

/** What matches, up to a bound; what is not wanted does not count. */
export const collect = async (
  { outbox }: LoadedOutbox,
  query: ListQuery,
  most: number,
  isWanted: (delivery: DeliveryView) => boolean = () => true,
): Promise<{ readonly found: readonly DeliveryView[]; readonly more: boolean }> => {
  const found: DeliveryView[] = []
  let after: string | undefined
  for (;;) {
    const page = await outbox.inspect.list({
      ...query,
      limit: PAGE,
      ...(after === undefined ? {} : { after }),
    })
    for (const delivery of page.deliveries) {
      if (!isWanted(delivery)) continue
      if (found.length === most) return { found, more: true }
      found.push(delivery)
    }
    if (page.next === null) return { found, more: false }
    after = page.next
  }
}

/** By the id of an event or of one of its deliveries. */
export const findEvent = async (
  session: Session,
  id: string,
): Promise<readonly [LoadedOutbox, EventStory, DeliveryStory | null]> => {
  if (!isUuid(id)) session.refuse(`"${id}" is no id: ids look like 019a3c1e-7b1f-7c33-9d52-0a4f6c1b2d3e`)
  const found = await session.find(async ({ outbox }) => {
    const event = await outbox.inspect.event(id)
    if (event !== null) return [event, null] as const
    const owner = await outbox.inspect.eventOfDelivery(id)
    const detail = owner === null ? null : await outbox.inspect.event(owner.id)
    if (detail === null) return null
    return [detail, detail.deliveries.find((delivery) => delivery.id === id.toLowerCase()) ?? null] as const
  })
  if (found === null)
    throw new OutboxError(
      ERROR_CODES.notFound,
      `there is no event or delivery ${id}; perhaps cleanup was faster, or it is of a delivery that has been routed since: ask with the id of its event`,
    )
  const [loaded, [detail, delivery]] = found
  return [loaded, detail, delivery]
}
