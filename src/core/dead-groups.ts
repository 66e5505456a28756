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
  readonly oldestAtMs: number
  readonly newestAtMs: number
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

export const groupDead = async (
  inspection: Inspection,
  { limit, destination }: { readonly limit: number; readonly destination?: string },
): Promise<DeadGroups> => {
  const groups = new Map<string, DeliveryView[]>()
  let scanned = 0
  let after: string | undefined
  do {
    const { deliveries, next } = await inspection.list({
      status: ['dead'],
      limit: Math.min(PAGE, limit - scanned),
      ...(destination === undefined ? {} : { destination }),
      ...(after === undefined ? {} : { after }),
    })
    for (const view of deliveries) {
      const id = fingerprintOf(view.destination, view.type, normaliseMessage(view.lastError ?? ''))
      const group = groups.get(id)
      if (group === undefined) groups.set(id, [view])
      else group.push(view)
    }
    scanned += deliveries.length
    after = next ?? undefined
  } while (after !== undefined && scanned < limit)
  const found = [...groups].map(([fingerprint, views]) => toGroup(fingerprint, views))
  return { groups: found.sort((a, b) => b.count - a.count), scanned, more: after !== undefined }
}

/** `views` are newest first, as they were read. */
const toGroup = (fingerprint: string, views: readonly DeliveryView[]): DeadGroup => {
  const [newest] = views as [DeliveryView]
  const times = views.map(({ createdAtMs }) => createdAtMs)
  return {
    fingerprint,
    destination: newest.destination,
    type: newest.type,
    reason: normaliseMessage(newest.lastError ?? ''),
    lastError: newest.lastError,
    count: views.length,
    oldestAtMs: times.reduce((least, at) => Math.min(least, at)),
    newestAtMs: times.reduce((most, at) => Math.max(most, at)),
    deliveryIds: views.map(({ id }) => id),
  }
}
