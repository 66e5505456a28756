/** Who wrote the last outcome of a delivery, from what its row still says. */
import { isUuid, markOfToken } from './model/uuid.ts'
import type { DeliveryView, EventDetail, WorkerView } from './spi/index.ts'

export interface SettledBy {
  /** Its id; of a worker that has ended and delivered straight after the commit only the last 12 digits are known. */
  readonly workerId: string
  /** `host:pid`; null when it is registered no longer: it has ended. */
  readonly worker: string | null
  /** `hot`: straight after the commit, by the claim that it was born with. `lane`: as the owner of its lane; keyed events are always sent so. */
  readonly path: 'hot' | 'lane'
}

export interface EventStory extends EventDetail {
  readonly deliveries: readonly DeliveryStory[]
}

/** `settler`: who wrote its last outcome; null when nobody did, an operator or a maintainer. */
export type DeliveryStory = DeliveryView & { readonly settler: SettledBy | null }

export const withSettlers = (detail: EventDetail, workers: readonly WorkerView[]): EventStory => ({
  ...detail,
  deliveries: detail.deliveries.map((one) => ({ ...one, settler: settlerOf(one.settledBy, workers) })),
})

const settlerOf = (settledBy: string | null, workers: readonly WorkerView[]): SettledBy | null => {
  if (settledBy === null || !isUuid(settledBy)) return null
  const mark = markOfToken(settledBy)
  const found = workers.find(({ workerId }) => workerId.endsWith(mark ?? settledBy))
  return {
    workerId: found?.workerId ?? mark ?? settledBy,
    worker: found?.name ?? null,
    path: mark === null ? 'lane' : 'hot',
  }
}
