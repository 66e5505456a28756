/** Who may do what, and for how long. */
import type {
  InsertRequest,
  Settlement,
  SettleRequest,
  SuspectRequest,
  TakenLane,
} from '../../src/core/spi/index.ts'
import { changing, changingSettlements, type Defect, liveWorker } from './defect.ts'

const withRight = (settlement: Settlement, right: Settlement['delivery']['right']): Settlement => ({
  ...settlement,
  delivery: { ...settlement.delivery, right },
})

export const RIGHTS: readonly Defect[] = [
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
    name: 'fence-lifted',
    says: 'a renewal lifts the fence of a worker',
    database: ({ database }) =>
      changing({
        'lanes.renew': (args, next) => {
          const worker = database.workers.get(args[0] as string)
          if (worker !== undefined) worker.fenced = false
          return next(args)
        },
      }),
  },
  {
    name: 'fenced-suspects',
    says: 'a worker that was fenced still writes its token',
    database: (world) =>
      changing({
        'queue.suspect': ([given], next) =>
          next([{ ...(given as SuspectRequest), workerId: liveWorker(world) ?? '' }]),
      }),
  },
  {
    name: 'retire-frees-lanes',
    says: 'a fenced worker that leaves gives back lanes which others have to take over with care',
    database: ({ database }) =>
      changing({
        'lanes.retire': (args, next) => {
          for (const row of [...database.lanes.values()].flat()) if (row.owner === args[0]) row.owner = null
          return next(args)
        },
      }),
  },
  {
    name: 'no-takeover',
    says: 'nobody fences a worker whose lease ran out',
    database: ({ database }) =>
      changing({
        'lanes.survey': (args, next) => {
          for (const worker of database.workers.values()) worker.expiresAtMs = database.now() + 1
          return next(args)
        },
      }),
  },
  {
    name: 'eternal-claim',
    says: 'a hot claim outlives the process that made it',
    database: () =>
      changing({
        insert: ([tx, request], next) => next([tx, { ...(request as InsertRequest), hotLeaseMs: 3_600_000 }]),
      }),
  },
]
