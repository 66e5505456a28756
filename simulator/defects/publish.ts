/** From the transaction to the routes. */
import type { ExpandRequest, InsertRequest, ReconcileBatch, RegistryState } from '../../src/core/spi/index.ts'
import { changing, type Defect } from './defect.ts'

export const PUBLISH: readonly Defect[] = [
  {
    name: 'dispatch-before-commit',
    says: 'COMMIT is believed to have happened when it is sent',
    believes: 'sent',
  },
  {
    name: 'unknown-is-committed',
    says: 'a COMMIT whose answer is lost counts as committed',
    believes: 'unknown',
  },
  {
    name: 'rollback-is-committed',
    says: 'a COMMIT that was answered by ROLLBACK counts as committed',
    believes: 'rolledBack',
  },
  {
    name: 'savepoint-kept',
    says: 'what a savepoint published stays when it is rolled back',
    keepsSavepoints: true,
  },
  {
    name: 'key-forgotten',
    says: 'the idempotency key is not stored',
    database: () =>
      changing({
        insert: ([tx, request], next) => {
          const { events, ...rest } = request as InsertRequest
          return next([tx, { ...rest, events: events.map((one) => ({ ...one, idempotencyKey: null })) }])
        },
      }),
  },
  {
    name: 'keys-not-locked',
    says: 'writers of a key do not wait for each other although they should',
    database: () =>
      changing({
        insert: ([tx, request], next) => next([tx, { ...(request as InsertRequest), lockKeys: false }]),
      }),
  },
  {
    name: 'expansion-misses',
    says: 'an event without routes is expanded for all destinations but one',
    database: () =>
      changing({
        'queue.expand': ([given], next) => {
          const request = given as ExpandRequest
          const expansions = request.expansions.map((one) => ({
            ...one,
            deliveries: one.deliveries.slice(1),
          }))
          return next([{ ...request, expansions }])
        },
      }),
  },
  {
    name: 'reconciler-blind',
    says: 'what older publishers missed is never found',
    database: () =>
      changing({
        'registry.findUnreconciled': async (args, next) => ({
          ...((await next(args)) as ReconcileBatch),
          events: [],
        }),
      }),
  },
  {
    name: 'reconciler-hasty',
    says: 'the reconciler goes past transactions that are still open',
    database: ({ database }) =>
      changing({
        'registry.findUnreconciled': async (args, next) => ({
          ...((await next(args)) as ReconcileBatch),
          scannedTo: database.lastSeq,
        }),
      }),
  },
  {
    name: 'reconciler-digs',
    says: 'a new pattern brings the history along',
    database: () =>
      changing({
        'registry.load': async (args, next) => {
          const state = (await next(args)) as RegistryState
          const destinations = state.destinations.map((one) => ({
            ...one,
            patternsFrom: one.patternsFrom.map(() => 0n),
          }))
          return { ...state, destinations }
        },
      }),
  },
]
