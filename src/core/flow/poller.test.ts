import { describe, expect, it } from 'vitest'
import { createFakeRuntime } from '../../testing/fake-runtime.ts'
import { SILENT_LOGGER } from '../runtime/logger.ts'
import { NOOP_METRICS } from '../runtime/metrics.ts'
import type { ReadRequest, ReadResult, StoredDelivery } from '../spi/index.ts'
import { Poller, type PollerParts } from './poller.ts'
import { ReadGuard } from './read-guard.ts'

const INTERVAL_MS = 1_000
const MARGIN_MS = 1_000

const nothing: ReadResult = {
  fresh: [],
  due: [],
  swept: [],
  sweptMore: false,
  more: false,
  nextDueInMs: null,
  unrouted: false,
  activatable: false,
  snapshot: null,
}

/** A poller over a database whose transactions all end at once unless one is `open`, and what it asked for. */
const create = () => {
  const runtime = createFakeRuntime()
  const requests: ReadRequest[] = []
  let transactions = 0n
  const database = {
    readMs: 0,
    expandMs: 0,
    activateMs: 0,
    expanded: 0,
    key: null as string | null,
    open: false,
    more: false,
    /** Rows of one key that a sweep finds behind the cursor, and what lies right before the last of them. */
    late: [] as StoredDelivery[],
    ahead: [] as string[],
  }
  const lanes = {
    workerId: 'w',
    losses: 0,
    isValid: () => true,
    readable: () => ({ lanes: [], all: true }),
  }
  /** What admission was given, and what it answers. */
  const admitted: string[][] = []
  const answer = { goBackTo: null as bigint | null, blocked: false, full: false, handled: 0 }
  const seen = { all: 0, during: () => undefined as unknown }
  const unsure: string[][] = []
  const leaving = new Set<string>()
  const queued = new Set<string>()
  const read = async (request: ReadRequest): Promise<ReadResult> => {
    requests.push(request)
    runtime.stall(database.readMs)
    transactions += 1n
    const { key } = database
    const fresh = request.after < 10n ? [{ id: 'd', seq: 10n, key } as StoredDelivery] : []
    const unrouted = database.expandMs > 0
    const activatable = database.activateMs > 0
    return {
      ...nothing,
      fresh,
      swept: database.late.map(({ id, seq }) => ({ id, seq })),
      more: database.more,
      unrouted,
      activatable,
      snapshot: { oldest: database.open ? 0n : transactions, next: transactions },
    }
  }
  const activate = async (): Promise<number> => {
    runtime.stall(database.activateMs)
    return 0
  }
  const queue = { room: 20, isStocked: false }
  const dispatcher = {
    paused: false,
    queues: {
      room: () => queue.room,
      isStocked: () => queue.isStocked,
      byteRoom: () => 1_000,
      size: 0,
      timed: { count: 0, bytes: 0 },
      leavingKeys: () => new Set(leaving),
      coversKey: (_: string, others: readonly string[]) => others.every((id) => queued.has(id)),
    },
  }
  const parts = {
    destination: 'x',
    store: {
      queue: {
        read,
        activate,
        readByIds: async () => database.late,
        claim: async (_: string, ids: readonly string[], limit: number) =>
          database.late.flatMap(({ id, seq }, i) => {
            const others = i === database.late.length - 1 ? database.ahead : []
            const ahead = [...database.late.slice(0, i).map((one) => one.id), ...others].slice(0, limit)
            return ids.includes(id) ? [{ id, seq, ahead }] : []
          }),
      },
    },
    runtime,
    logger: SILENT_LOGGER,
    metrics: NOOP_METRICS,
    dispatcher,
    lanes,
    admission: {
      isInFlight: () => false,
      admit: async (rows: readonly StoredDelivery[], read: { readonly unsure: ReadonlySet<string> }) => {
        unsure.push([...read.unsure])
        admitted.push(rows.map(({ id }) => id))
        seen.during()
        return { ...answer }
      },
      allRead: () => {
        seen.all += 1
      },
    },
    guard: new ReadGuard(),
    expand: async () => {
      runtime.stall(database.expandMs)
      database.expanded += 1
      return false
    },
  } as unknown as PollerParts
  const poller = new Poller(parts, {
    tuning: { pollIntervalMs: INTERVAL_MS, pollIdleMaxMs: INTERVAL_MS, pollBatchSize: 100 },
    skipRecentMs: 0,
    windowMs: 0,
    sweepIntervalMs: 10,
  })
  const pollAfter = async (ms: number): Promise<bigint | undefined> => {
    runtime.stall(ms)
    await poller.poll()
    return requests.at(-1)?.sweepFrom
  }
  return {
    database,
    dispatcher,
    queue,
    pollAfter,
    poller,
    lanes,
    requests,
    admitted,
    answer,
    leaving,
    queued,
    unsure,
    seen,
  }
}

describe('what was due when lanes came', () => {
  it('has all been read when a read leaves nothing out, and what it brought is in our hands', async () => {
    const { database, poller, answer, seen } = create()
    database.more = true
    await poller.poll()
    database.more = false
    answer.goBackTo = 1n
    await poller.poll()
    answer.goBackTo = null
    answer.blocked = true
    await poller.poll()
    answer.blocked = false
    answer.full = true
    await poller.poll()
    answer.full = false
    // Others came while it was dealt with.
    seen.during = () => poller.rewind()
    await poller.poll()
    seen.during = () => undefined
    expect(seen.all).toBe(0)
    await poller.poll()
    expect(seen.all).toBe(1)
  })
})

/** Until the sweeps that come often leave out what lies behind the mark. */
const withMark = async () => {
  const world = create()
  for (let i = 0; i < 4; i += 1) await world.pollAfter(MARGIN_MS)
  return world
}

describe('full sweeps', () => {
  it('come again after the interval when they are cheap', async () => {
    const { pollAfter } = await withMark()
    expect(await pollAfter(INTERVAL_MS)).toBe(0n)
    expect(await pollAfter(INTERVAL_MS / 2)).toBe(10n)
    expect(await pollAfter(INTERVAL_MS / 2)).toBe(0n)
  })

  it('come seldom when the read takes long', async () => {
    const { database, pollAfter } = await withMark()
    database.readMs = 200
    expect(await pollAfter(INTERVAL_MS)).toBe(0n)
    expect(await pollAfter(INTERVAL_MS)).toBe(10n)
    expect(await pollAfter(4 * INTERVAL_MS)).toBe(0n)
  })

  it.each(['expandMs', 'activateMs'] as const)('do not come later because of %s', async (slow) => {
    const { database, pollAfter } = await withMark()
    database[slow] = 600
    expect(await pollAfter(INTERVAL_MS)).toBe(0n)
    database[slow] = 0
    expect(await pollAfter(INTERVAL_MS)).toBe(0n)
  })
})

describe('while its destination is paused', () => {
  it('expands what is unrouted, and reads nothing', async () => {
    const { database, dispatcher, poller, requests } = create()
    dispatcher.paused = true
    await poller.poll()
    expect({ expanded: database.expanded, requests }).toEqual({ expanded: 1, requests: [] })
  })

  it('expands nothing without a right to', async () => {
    const { database, dispatcher, poller, lanes } = create()
    dispatcher.paused = true
    lanes.isValid = () => false
    await poller.poll()
    expect(database.expanded).toBe(0)
  })

  it('does not look more often because rows are expected', async () => {
    const { dispatcher, poller } = create()
    poller.expectRows()
    dispatcher.paused = true
    expect(await poller.poll()).toBeGreaterThan(0)
    poller.expectRows()
    expect(await poller.poll()).toBeGreaterThan(0)
    dispatcher.paused = false
    expect(await poller.poll()).toBeGreaterThan(0)
  })
})

describe('a read', () => {
  it('says nothing about keys of which something is being given back', async () => {
    const { database, poller, leaving, unsure } = create()
    database.key = 'k'
    leaving.add('k')
    await poller.poll()
    leaving.clear()
    await poller.poll()
    expect(unsure).toEqual([['k'], []])
  })
})

describe('a late row of a key', () => {
  it('goes only when everything before it is in our hands', async () => {
    const { database, poller, queued, unsure } = create()
    database.late = [{ id: 'late', seq: 5n, key: 'k', behind: false } as StoredDelivery]
    database.ahead = ['first']
    await poller.poll()
    queued.add('first')
    await poller.poll()
    expect(unsure).toEqual([['k'], []])
  })

  it('goes with however many late rows before it, and only then when nothing else is before it', async () => {
    const { database, poller, queued, unsure } = create()
    database.late = Array.from(
      { length: 40 },
      (_, i) => ({ id: `late ${i}`, seq: BigInt(i + 1), key: 'k', behind: false }) as StoredDelivery,
    )
    await poller.poll()
    database.ahead = ['became pending meanwhile']
    await poller.poll()
    queued.add('became pending meanwhile')
    await poller.poll()
    expect(unsure).toEqual([[], ['k'], []])
  })
})

describe('the mark of a sweep', () => {
  it('goes when a read fails or cannot be dealt with: the next one sweeps for what it leaves behind', async () => {
    const { poller, pollAfter, requests, seen } = await withMark()
    await pollAfter(INTERVAL_MS)
    seen.during = () => {
      throw new Error('away')
    }
    await expect(poller.poll()).rejects.toThrow('away')
    seen.during = () => undefined
    await poller.poll()
    expect(requests.slice(-2)).toMatchObject([{ sweep: false }, { sweep: true, sweepFrom: 0n }])
  })

  it('stays while a transaction is open that may still commit behind it', async () => {
    const { database, pollAfter } = create()
    database.open = true
    for (let i = 0; i < 4; i += 1) await pollAfter(MARGIN_MS)
    await pollAfter(INTERVAL_MS)
    expect(await pollAfter(INTERVAL_MS / 2)).toBe(0n)
  })
})

describe('the cursor', () => {
  it('goes back to what was read and not taken', async () => {
    const { pollAfter, requests, answer } = create()
    answer.goBackTo = 10n
    await pollAfter(0)
    await pollAfter(0)
    expect(requests.map(({ after }) => after)).toEqual([0n, 9n])
  })

  it('goes back to the first row of a read that could not be dealt with', async () => {
    const { poller, pollAfter, requests, seen } = create()
    seen.during = () => {
      throw new Error('away')
    }
    await expect(poller.poll()).rejects.toThrow('away')
    seen.during = () => undefined
    await pollAfter(0)
    expect(requests.map(({ after }) => after)).toEqual([0n, 9n])
  })

  it('begins anew when lanes came', async () => {
    const { poller, pollAfter, requests } = create()
    await pollAfter(0)
    poller.rewind()
    await pollAfter(0)
    expect(requests.map(({ after }) => after)).toEqual([0n, 0n])
  })
})

describe('a backlog', () => {
  it('is read on at once unless the queue has enough for the workers, and then when it has not', async () => {
    const { poller, queue, database, answer, requests } = create()
    database.more = true
    answer.handled = 1
    expect(await poller.poll()).toBe(0)
    queue.isStocked = true
    expect(await poller.poll()).toBeGreaterThan(0)
    poller.start()
    await expect.poll(() => requests.length).toBe(3)
    poller.roomFreed()
    await new Promise(setImmediate)
    expect(requests).toHaveLength(3)
    database.more = false
    queue.isStocked = false
    poller.roomFreed()
    await expect.poll(() => requests.length).toBe(4)
    await poller.close()
  })
})

describe('rows of a read', () => {
  it('are left alone when a lane went while the database answered', async () => {
    const { pollAfter, lanes, admitted, requests } = create()
    Object.defineProperty(lanes, 'losses', { get: () => requests.length })
    await pollAfter(0)
    expect(requests).toHaveLength(1)
    expect(admitted).toEqual([])
  })

  it('with a key are taken only together with a full sweep', async () => {
    const { poller, pollAfter, database, admitted, answer } = create()
    for (let i = 0; i < 4; i += 1) await pollAfter(MARGIN_MS)
    answer.goBackTo = 10n
    await pollAfter(MARGIN_MS)
    answer.goBackTo = null
    admitted.length = 0
    database.key = 'k'
    await poller.poll()
    await poller.poll()
    expect(admitted).toEqual([[], ['d']])
  })
})
