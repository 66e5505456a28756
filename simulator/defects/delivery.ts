/** From the read to the settle. */
import type {
  ReadRequest,
  ReadResult,
  SettleRequest,
  StoredDelivery,
  SuspectRequest,
} from '../../src/core/spi/index.ts'
import type { Layer } from '../intercept.ts'
import { changing, changingSettlements, type Defect } from './defect.ts'

const changingRows = (change: (row: StoredDelivery) => StoredDelivery): Layer =>
  changing({
    'queue.read': async (args, next) => {
      const result = (await next(args)) as ReadResult
      return { ...result, fresh: result.fresh.map(change), due: result.due.map(change) }
    },
    'queue.readByIds': async (args, next) => ((await next(args)) as StoredDelivery[]).map(change),
  })

/** Reads answer with what was true at the read before; what has been settled since looks pending. */
const staleReads = (): Layer => {
  const earlier = new Map<string, ReadResult>()
  return changing({
    'queue.read': async (args, next) => {
      const { destination, lanes } = args[0] as ReadRequest
      const result = (await next(args)) as ReadResult
      const place = `${destination} ${lanes?.join() ?? 'all'}`
      const old = earlier.get(place)
      earlier.set(place, result)
      if (old === undefined) return result
      const known = new Set(result.fresh.map(({ id }) => id))
      return { ...result, fresh: [...old.fresh.filter(({ id }) => !known.has(id)), ...result.fresh] }
    },
  })
}

export const DELIVERY: readonly Defect[] = [
  {
    name: 'no-sweep',
    says: 'a sweep finds nothing behind the cursor',
    database: () =>
      changing({
        'queue.read': async (args, next) => {
          const result = (await next(args)) as ReadResult
          return { ...result, swept: result.swept === null ? null : [], sweptMore: false }
        },
      }),
  },
  {
    name: 'suspects-not-counted',
    says: 'a suspicion writes a token and counts nothing',
    database: (world) =>
      changing({
        'queue.suspect': async (args, next) => {
          const { ids } = args[0] as SuspectRequest
          const answer = (await next([{ ...(args[0] as SuspectRequest), spendFrom: 1_000_000 }])) as {
            readonly id: string
          }[]
          for (const id of ids) {
            const row = world.database.deliveries.get(id)
            if (row !== undefined) row.suspicions = 0
          }
          return answer.map((one) => ({ ...one, suspicions: 0 }))
        },
      }),
  },
  {
    name: 'outage-spends-attempts',
    says: 'a destination that cannot be reached counts as a refusal of the event',
    options: (options) => ({
      ...options,
      destinations: Object.fromEntries(
        Object.entries(options.destinations ?? {}).map(([name, destination]) => [
          name,
          { ...destination, classify: () => 'retry' as const },
        ]),
      ),
    }),
  },
  { name: 'stale-read', says: 'a read shows rows as they were at the read before', database: staleReads },
  {
    name: 'no-hold',
    says: 'no row is known to be behind the failed head of its key',
    database: () => changingRows((row) => ({ ...row, behind: false })),
  },
  {
    name: 'promote-nothing',
    says: 'rows behind a head that is done stay held',
    database: () =>
      changing({
        'queue.settle': ([request], next) => next([{ ...(request as SettleRequest), promoteLimit: 0 }]),
      }),
  },
  {
    name: 'claim-anything',
    says: 'a claim by id does not say what comes first in its key',
    database: () =>
      changing({
        'queue.claim': async (args, next) =>
          ((await next(args)) as { readonly id: string }[]).map((head) => ({ ...head, ahead: [] })),
      }),
  },
  {
    name: 'delayed-keeps-place',
    says: 'a delayed event goes where it was published, not where it is when it is due',
    database: ({ database }) => {
      database.activate = (row) => database.change(row, { status: 'pending' })
      return changing({})
    },
  },
  {
    name: 'lost-retry',
    says: 'a retry is written without its due time ever coming',
    database: () =>
      changingSettlements((settlement) =>
        settlement.outcome.kind === 'retry'
          ? { ...settlement, outcome: { ...settlement.outcome, delayMs: 86_400_000 } }
          : settlement,
      ),
  },
  {
    name: 'dead-early',
    says: 'the first refusal buries a delivery',
    database: () =>
      changingSettlements((settlement) => {
        const { outcome } = settlement
        if (outcome.kind !== 'retry') return settlement
        return { ...settlement, outcome: { kind: 'dead', failure: outcome.failure } }
      }),
  },
  {
    name: 'released-is-done',
    says: 'what is given back unsent counts as delivered',
    database: () =>
      changingSettlements((settlement) =>
        settlement.outcome.kind === 'released' ? { ...settlement, outcome: { kind: 'done' } } : settlement,
      ),
  },
  {
    name: 'stop-forgets',
    says: 'a process that stops does not write down what it delivered last',
    database: (_world, boot) =>
      changing({
        'queue.settle': async (args, next) => (boot.stopping ? { lost: [], promoted: [] } : await next(args)),
      }),
  },
]
