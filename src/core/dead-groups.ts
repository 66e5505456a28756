/** Dead deliveries by what killed them: a thousand of them usually have three reasons. */
import { fingerprintOf, normaliseMessage } from './policy/fingerprint.ts'
import type { DeliveryView, Inspection } from './spi/index.ts'

export interface DeadGroup {
  /** The same for the same destination, type and reason, in every process and at any time. */
  readonly fingerprint: string
  readonly destination: string
  readonly type: string
  /** The message, without ids, numbers and values in quotes. */
  readonly reason: string
  /** The whole message of the newest one. */
  readonly lastError: string | null
  readonly count: number
  readonly firstDiedAtMs: number
  readonly lastDiedAtMs: number
  /** For `operator.redrive({ deliveryIds })` and the like: all of those that were looked at. */
  readonly deliveryIds: readonly string[]
}

export interface DeadGroups {
  /** Largest first. */
  readonly groups: readonly DeadGroup[]
  /** Dead deliveries that were looked at, newest first. */
  readonly scanned: number
  /** There are older ones that were not looked at. */
  readonly more: boolean
}

const PAGE = 1_000

/** What is wrong with it, without what differs from one to the next. */
const reasonOf = ({ lastError }: DeliveryView): string => normaliseMessage(lastError ?? '')

export const groupIdOf = (view: DeliveryView): string =>
  fingerprintOf(view.destination, view.type, reasonOf(view))

/** `views` are newest first, as they were read. */
export const groupViews = (views: readonly DeliveryView[]): DeadGroup[] => {
  const groups = new Map<string, DeliveryView[]>()
  for (const view of views) {
    const id = groupIdOf(view)
    const group = groups.get(id)
    if (group === undefined) groups.set(id, [view])
    else group.push(view)
  }
  return [...groups]
    .map(([fingerprint, members]) => toGroup(fingerprint, members))
    .sort((a, b) => b.count - a.count)
}

export const groupDead = async (
  inspection: Inspection,
  { limit, destination }: { readonly limit: number; readonly destination?: string },
): Promise<DeadGroups> => {
  const views: DeliveryView[] = []
  let after: string | undefined
  do {
    const { deliveries, next } = await inspection.list({
      status: ['dead'],
      limit: Math.min(PAGE, limit - views.length),
      ...(destination === undefined ? {} : { destination }),
      ...(after === undefined ? {} : { after }),
    })
    for (const view of deliveries) views.push(view)
    after = next ?? undefined
  } while (after !== undefined && views.length < limit)
  return { groups: groupViews(views), scanned: views.length, more: after !== undefined }
}

const toGroup = (fingerprint: string, views: readonly DeliveryView[]): DeadGroup => {
  const [newest] = views as [DeliveryView]
  const times = views.map(({ diedAtMs, createdAtMs }) => diedAtMs ?? createdAtMs)
  return {
    fingerprint,
    destination: newest.destination,
    type: newest.type,
    reason: reasonOf(newest),
    lastError: newest.lastError,
    count: views.length,
    firstDiedAtMs: times.reduce((least, at) => Math.min(least, at)),
    lastDiedAtMs: times.reduce((most, at) => Math.max(most, at)),
    deliveryIds: views.map(({ id }) => id),
  }
}
