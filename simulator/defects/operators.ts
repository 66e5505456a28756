/** Operators and maintainers. */
import type { CleanupRequest, RegistryState } from '../../src/core/spi/index.ts'
import type { Layer } from '../intercept.ts'
import type { World } from '../world.ts'
import { changing, type Defect } from './defect.ts'

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

export const OPERATORS: readonly Defect[] = [
  { name: 'purge-by-created', says: 'cleanup goes by when a row was stored', database: purgeByAge },
  {
    name: 'cleanup-young',
    says: 'cleanup takes what finished a moment ago',
    database: () =>
      changing({
        'maintenance.cleanup': ([given], next) =>
          next([{ ...(given as CleanupRequest), doneOlderThanMs: 0 }]),
      }),
  },
  {
    name: 'cleanup-blocked',
    says: 'cleanup takes dead heads that keep their key waiting',
    database: ({ database }) =>
      changing({
        'maintenance.cleanup': (args, next) => {
          for (const row of [...database.deliveries.values()]) {
            if (row.status === 'dead' && row.holdsKey) database.remove(row)
          }
          return next(args)
        },
      }),
  },
  {
    name: 'cleanup-forgets-keys',
    says: 'cleanup takes idempotency keys before their time',
    database: () =>
      changing({
        'maintenance.cleanup': ([given], next) =>
          next([{ ...(given as CleanupRequest), dedupOlderThanMs: 0 }]),
      }),
  },
  {
    name: 'redrive-lets-go',
    says: 'a dead head that is redriven no longer keeps its key waiting',
    database: ({ database }) =>
      changing({
        'operations.redrive': async (args, next) => {
          const known = new Set(database.deliveries.keys())
          const count = await next(args)
          for (const row of database.deliveries.values()) {
            if (!known.has(row.id)) database.change(row, { holdsKey: false })
          }
          return count
        },
      }),
  },
  {
    name: 'backfill-doubles',
    says: 'a back-fill adds every event twice',
    database: ({ database }) =>
      changing({
        'operations.backfill': async (args, next) => {
          const known = new Set(database.deliveries.keys())
          const count = await next(args)
          const added = [...database.deliveries.values()].filter(({ id }) => !known.has(id))
          for (const row of added) database.insertRow({ ...row, id: [...row.id].reverse().join('') })
          return count
        },
      }),
  },
  {
    name: 'no-audit',
    says: 'what operators do is not written down',
    database: ({ database }) =>
      changing({
        'operations.redrive': async (args, next) => {
          const count = await next(args)
          database.audit.pop()
          return count
        },
      }),
  },
  {
    name: 'pause-ignored',
    says: 'a process does not hear that a destination is paused',
    database: () =>
      changing({
        'registry.load': async (args, next) => {
          const state = (await next(args)) as RegistryState
          return { ...state, destinations: state.destinations.map((one) => ({ ...one, paused: false })) }
        },
      }),
  },
]
