import { describe, expect, it } from 'vitest'
import type { Store, StoredDelivery } from '../spi/index.ts'
import { Admission, type AdmissionParts, type ReadFacts } from './admission.ts'

let next = 0n
const row = (lane: number): StoredDelivery => {
  next += 1n
  return {
    id: `d${next}`,
    seq: next,
    destination: 'x',
    run: 1,
    lane,
    key: null,
    attempts: 0,
    suspicions: 0,
    status: 'pending',
    token: null,
    holdsKey: false,
    behind: false,
    size: 0,
    event: { size: 0 } as StoredDelivery['event'],
    problem: null,
  }
}

/** An admission of a destination that can have `atOnce` deliveries under way, and the ids it counted as suspects. */
const create = (atOnce: number) => {
  const counted: string[] = []
  const suspect = async ({ ids }: { ids: readonly string[] }) => {
    counted.push(...ids)
    return ids.map((id) => ({ id, suspicions: 1, attempts: 0 }))
  }
  const admission = new Admission({
    destination: { name: 'x', concurrency: atOnce, batchSize: 1, deadHead: 'skip' },
    store: { queue: { suspect } } as unknown as Store,
    metrics: { suspects: () => undefined },
    dispatcher: { queues: { has: () => false }, enqueueCold: () => true },
    owns: () => true,
    isCurrent: () => true,
    newToken: () => 'token',
  } as unknown as AdmissionParts)
  return { admission, counted }
}

const READ: ReadFacts = { readId: 1, workerId: 'w', stillOurs: () => true, unsure: new Set() }

describe('suspects after an unclean takeover', () => {
  it('are the first rows of the lanes that were taken, as many as can be under way at once', async () => {
    const { admission, counted } = create(2)
    admission.suspectLanes([7])
    const [other, first, second, third] = [row(1), row(7), row(7), row(7)] as const
    await admission.admit([other, first, second, third], READ)
    expect(counted).toEqual([first.id, second.id])
  })

  it('are not looked for any more in lanes of an earlier takeover', async () => {
    const { admission, counted } = create(1)
    admission.suspectLanes([7])
    const timed = { ...row(7), status: 'retry' as const }
    await admission.admit([timed, row(7)], READ)
    counted.length = 0
    admission.suspectLanes([8])
    const [old, taken] = [row(7), row(8)] as const
    await admission.admit([old, taken], READ)
    expect(counted).toEqual([taken.id])
  })
})
