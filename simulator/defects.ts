/**
 * Mistakes planted around the library: each breaks one of the rules on which delivery rests, as a bug in a store or
 * in the core would. The simulator is worth something only if it notices every one of them.
 */
import type { OutboxOptions } from '../src/core/options.ts'
import type {
  CleanupRequest,
  ReadRequest,
  ReadResult,
  Settlement,
  SettleRequest,
  StoredDelivery,
  SuspectRequest,
  TakenLane,
} from '../src/core/spi/index.ts'
import type { MemoryTransaction } from '../src/stores/memory/index.ts'
import type { Call, Layer } from './intercept.ts'
import type { World } from './world.ts'

export type Options = Omit<OutboxOptions<MemoryTransaction, MemoryTransaction>, 'store'>

export interface Defect {
  readonly name: string
  readonly says: string
  /** Around the database itself, below the observer. */
  readonly database?: (world: World) => Layer
  readonly options?: (options: Options) => Options
  readonly answersCommitEarly?: boolean
}

/** A layer that changes some methods and leaves the others alone. */
const changing =
  (methods: Readonly<Record<string, (args: readonly unknown[], next: Call) => Promise<unknown>>>): Layer =>
  (name, args, next) =>
    methods[name]?.(args, next) ?? next(args)

const changingSettlements = (change: (settlement: Settlement) => Settlement): Layer =>
  changing({
    'queue.settle': ([request], next) => {
      const given = request as SettleRequest
      return next([{ ...given, settlements: given.settlements.map(change) }])
    },
  })

const withRight = (settlement: Settlement, right: Settlement['delivery']['right']): Settlement => ({
  ...settlement,
  delivery: { ...settlement.delivery, right },
})

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

const purgeByAge = (world: World): Layer =>
  changing({
    'maintenance.cleanup': async (args, next) => {
      const { doneOlderThanMs } = args[0] as CleanupRequest
      const before = world.database.now() - doneOlderThanMs
      for (const row of [...world.database.deliveries.values()]) {
        if (row.createdAtMs <= before) world.database.remove(row)
      }
      return await next(args)
    },
  })

const liveWorker = (world: World): string | undefined =>
  [...world.database.workers.values()].find(({ fenced }) => !fenced)?.id

export const DEFECTS: readonly Defect[] = [
  {
    name: 'no-fence',
    says: 'a settle does not look whether its worker was fenced',
    database: (world) =>
      changingSettlements((settlement) => {
        const { right } = settlement.delivery
        const live = liveWorker(world)
        if (right.kind === 'token' || live === undefined) return settlement
        return withRight(settlement, { kind: 'lane', workerId: live })
      }),
  },
  {
    name: 'no-token',
    says: 'a settle does not look whether its token was replaced',
    database: (world) =>
      changingSettlements((settlement) => {
        const token = world.database.deliveries.get(settlement.delivery.id)?.token ?? null
        const live = liveWorker(world)
        if (settlement.delivery.right.kind === 'lane') return settlement
        if (token !== null) return withRight(settlement, { kind: 'token', token })
        return live === undefined ? settlement : withRight(settlement, { kind: 'lane', workerId: live })
      }),
  },
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
    name: 'forget-release',
    says: 'a hot claim that is given back stays claimed',
    database: (world) => (name, args, next) => {
      if (name !== 'queue.settle') return next(args)
      for (const { delivery, outcome } of (args[0] as SettleRequest).settlements) {
        const row = world.database.deliveries.get(delivery.id)
        const claimed = delivery.right.kind === 'token' && row?.token === delivery.right.token
        if (outcome.kind === 'released' && claimed && row.status === 'pending') {
          world.database.change(row, { availableAtMs: world.database.now() + 3_600_000 })
        }
      }
      const given = args[0] as SettleRequest
      const settlements = given.settlements.filter(
        ({ outcome, delivery }) => outcome.kind !== 'released' || delivery.right.kind === 'lane',
      )
      return next([{ ...given, settlements }])
    },
  },
  {
    name: 'dispatch-before-commit',
    says: 'COMMIT is believed to have happened when it is sent',
    answersCommitEarly: true,
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
  { name: 'purge-by-created', says: 'cleanup goes by when a row was stored', database: purgeByAge },
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
    name: 'shared-lanes',
    says: 'lanes that somebody else has can be taken',
    database: (world) =>
      changing({
        'lanes.take': async (args, next) => {
          const taken = (await next(args)) as TakenLane[]
          for (const [lane, row] of (world.database.lanes.get(args[1] as string) ?? []).entries()) {
            if (row.owner === null || row.owner === args[0]) continue
            row.owner = args[0] as string
            taken.push({ lane, epoch: row.epoch, clean: true })
          }
          return taken
        },
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
]

export const findDefect = (name: string): Defect | undefined => DEFECTS.find((defect) => defect.name === name)
