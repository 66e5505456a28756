import { describe, expect, it } from 'vitest'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import type { Store, StoredDelivery } from '../spi/index.ts'
import { Admission, type AdmissionParts, type ReadFacts } from './admission.ts'

let next = 0n
const row = (lane: number, key: string | null = null): StoredDelivery => {
  next += 1n
  return {
    id: `d${next}`,
    seq: next,
    destination: 'x',
    run: 1,
    lane,
    key,
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

/**
 * An admission of a destination that can have `atOnce` deliveries under way, the ids it counted as suspects, and those
 * it queued; `tooLarge` says what the queue has no room for.
 */
const create = (atOnce: number) => {
  const counted: string[] = []
  const queued: string[] = []
  const alone: string[] = []
  const tooLarge = new Set<string>()
  const enqueueCold = (delivery: { id: string; alone: boolean }): boolean => {
    const { id } = delivery
    if (!tooLarge.has(id)) queued.push(id)
    if (!tooLarge.has(id) && delivery.alone) alone.push(id)
    return !tooLarge.has(id)
  }
  const uncountable = new Set<string>()
  let made = 0
  const store = { isAway: false, losesAnswers: false }
  const tokens = new Map<string, string>()
  const suspect = async ({ ids, token }: { ids: readonly string[]; token: string }) => {
    if (store.isAway) throw new Error('away')
    // As a store does: under the same token a row is counted once.
    counted.push(...ids.filter((id) => tokens.get(id) !== token))
    for (const id of ids) tokens.set(id, token)
    if (store.losesAnswers) throw new Error('the answer was lost')
    return ids.flatMap((id) => (uncountable.has(id) ? [] : [{ id, suspicions: 1, attempts: 0 }]))
  }
  const admission = new Admission({
    destination: { name: 'x', deadHead: 'block' },
    tuning: { mostUnderWay: atOnce },
    store: { queue: { suspect } } as unknown as Store,
    logger: SILENT_LOGGER,
    metrics: { suspects: () => undefined, dispatchDead: () => undefined, addDead: () => undefined },
    dispatcher: { queues: { has: () => false }, enqueueCold, settleUnsent: () => undefined },
    owns: () => true,
    isCurrent: () => true,
    newToken: () => {
      made += 1
      return `token ${made}`
    },
  } as unknown as AdmissionParts)
  return { admission, counted, queued, alone, tooLarge, uncountable, store, tokens }
}

const READ: ReadFacts = { readAt: 0, readId: 1, workerId: 'w', stillOurs: () => true, unsure: new Set() }

describe('suspects after an unclean takeover', () => {
  it('are the first rows of the lanes that were taken, as many as can be under way at once', async () => {
    const { admission, counted } = create(2)
    admission.suspectLanes([7])
    const [other, first, second, third] = [row(1), row(7), row(7), row(7)] as const
    await admission.admit([other, first, second, third], READ)
    expect(counted).toEqual([first.id, second.id])
  })

  it('that could not be counted are not overtaken by their key, because they may still be there', async () => {
    const { admission, queued, uncountable } = create(1)
    admission.suspectLanes([7])
    const [suspect, behind, other] = [row(7, 'k'), row(7, 'k'), row(7, 'l')] as const
    uncountable.add(suspect.id)
    const admitted = await admission.admit([suspect, behind, other], READ)
    expect(queued).toEqual([other.id])
    expect(admitted).toMatchObject({ goBackTo: behind.seq, blocked: true })
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

  it('are not those that came when all that was due had been read', async () => {
    const { admission, counted, queued } = create(2)
    admission.suspectLanes([7])
    const [there, late] = [row(7), row(7)] as const
    await admission.admit([there], READ)
    admission.allRead(1)
    await admission.admit([late], READ)
    expect(counted).toEqual([there.id])
    expect(queued).toEqual([there.id, late.id])
  })

  it('are suspects again when they could not be counted because the database was away', async () => {
    const { admission, counted, store } = create(1)
    admission.suspectLanes([7])
    const suspect = row(7)
    store.isAway = true
    await expect(admission.admit([suspect], READ)).rejects.toThrow('away')
    store.isAway = false
    await admission.admit([suspect, row(7)], READ)
    expect(counted).toEqual([suspect.id])
  })

  it('are no more than that, and counted once, when only the answers were lost', async () => {
    const { admission, counted, queued, alone, store, tokens } = create(1)
    admission.suspectLanes([7])
    const [suspect, ...innocent] = [{ ...row(7), suspicions: 1 }, row(7), row(7)] as const
    // As the database shows it from the second read on.
    const asStored = () => ({ ...suspect, suspicions: 2, token: tokens.get(suspect.id) ?? null })
    store.losesAnswers = true
    await expect(admission.admit([suspect, ...innocent], READ)).rejects.toThrow('lost')
    await expect(admission.admit([asStored(), ...innocent], READ)).rejects.toThrow('lost')
    store.losesAnswers = false
    await admission.admit([asStored(), ...innocent], READ)
    expect(counted).toEqual([suspect.id])
    expect(queued).toEqual([suspect, ...innocent].map(({ id }) => id))
    expect(alone).toEqual([])
  })

  it('run alone once they are, if one more process ended meanwhile', async () => {
    const { admission, counted, alone, store } = create(1)
    admission.suspectLanes([7])
    const suspect = { ...row(7), suspicions: 1 }
    store.losesAnswers = true
    await expect(admission.admit([suspect], READ)).rejects.toThrow('lost')
    store.losesAnswers = false
    await admission.admit([{ ...suspect, suspicions: 2, token: "another's" }], READ)
    expect(alone).toEqual([suspect.id])
    expect(counted).toEqual([suspect.id])
  })

  it('keep their place until everything has been read, and no longer', async () => {
    const { admission, counted, store } = create(1)
    admission.suspectLanes([7])
    const suspect = row(7)
    store.isAway = true
    await expect(admission.admit([suspect], READ)).rejects.toThrow('away')
    store.isAway = false
    admission.allRead(1)
    await admission.admit([suspect], READ)
    expect(counted).toEqual([])
  })

  it('are counted once, however often they are read before there is room for them', async () => {
    const { admission, counted, queued, alone, tooLarge } = create(9)
    admission.suspectLanes([7])
    const [light, grave] = [row(7), { ...row(7), suspicions: 2 }] as const
    for (const { id } of [light, grave]) tooLarge.add(id)
    await admission.admit([light, grave], READ)
    // As the database shows it from now on.
    const again = { ...light, suspicions: 2, token: 'token' }
    await admission.admit([again, grave], READ)
    expect([counted, queued]).toEqual([[light.id], []])
    tooLarge.clear()
    await admission.admit([again, grave], READ)
    expect(counted).toEqual([light.id])
    expect([queued, alone]).toEqual([[light.id, grave.id], [grave.id]])
  })
})

describe('a row whose hot claim ran out unsettled', () => {
  it('is a suspect, and counted before it is sent', async () => {
    const { admission, counted, queued } = create(1)
    const [claimed, other] = [{ ...row(1), token: 'of its publisher' }, row(1)] as const
    await admission.admit([claimed, other], READ)
    expect(counted).toEqual([claimed.id])
    expect(queued).toEqual([claimed.id, other.id])
  })
})

describe('rows of one read', () => {
  it('are not queued behind the first that did not fit: it could be of the same key', async () => {
    const { admission, queued, tooLarge } = create(1)
    const [first, large, last] = [row(1, 'k'), row(1, 'k'), row(1, 'k')] as const
    tooLarge.add(large.id)
    const admitted = await admission.admit([first, large, last], READ)
    expect(queued).toEqual([first.id])
    expect(admitted).toEqual({ goBackTo: large.seq, blocked: false, handled: 1, full: true })
  })

  it('wait when something of their key may be missing', async () => {
    const { admission, queued } = create(1)
    const [doubtful, sure] = [row(1, 'k'), row(1, 'other')] as const
    const admitted = await admission.admit([doubtful, sure], { ...READ, unsure: new Set(['k']) })
    expect(queued).toEqual([sure.id])
    expect(admitted).toEqual({ goBackTo: doubtful.seq, blocked: true, handled: 1, full: false })
  })

  it('wait behind a head of their key that is being buried', async () => {
    const { admission, queued } = create(1)
    const [unreadable, next, other] = [{ ...row(1, 'k'), event: null }, row(1, 'k'), row(1, 'other')] as const
    const admitted = await admission.admit([unreadable, next, other], READ)
    expect(queued).toEqual([other.id])
    expect(admitted).toEqual({ goBackTo: next.seq, blocked: true, handled: 2, full: false })
  })
})
