/**
 * The rate through Posthaste: a process waits for work, a backlog becomes visible with one commit, and the time ends when
 * nothing of it is left unsettled. Connecting is not part of it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createOutbox, type Publisher } from '../../src/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import type { BenchDatabase } from '../peers/database.ts'
import { EVENT_TYPE, payloadOf } from '../peers/payload.ts'
import { type Measured, measured } from './carriers.ts'

/** What a large backlog is drained with; the rest are the defaults. */
export const DESTINATION = { concurrency: 4, batchSize: 1_000 } as const
const SETTINGS = { pollBatchSize: 1_000, coldQueueCapacity: 4_000 } as const
/** Enough for a key to be free when it comes again. */
export const KEYS = 5_000
const PER_STATEMENT = 500
const DEADLINE_MS = 10 * 60_000
const NAME = 'bench'

export const keyOf = (n: number): string => `order-${n % KEYS}`

/** Passes nothing on. */
export const nowhere = (): Publisher => ({
  maxBatch: 10_000,
  orderedPrefix: true,
  send: async (deliveries) => deliveries.map(() => ({ ok: true })),
})

const counting = (publisher: Publisher) => {
  let sent = 0
  const counted: Publisher = {
    ...(publisher.maxBatch === undefined ? {} : { maxBatch: publisher.maxBatch }),
    ...(publisher.orderedPrefix === undefined ? {} : { orderedPrefix: publisher.orderedPrefix }),
    async send(deliveries, context) {
      const results = await publisher.send(deliveries, context)
      for (const result of results) {
        if (!result.ok) throw result.error
        sent += 1
      }
      return results
    },
    close: async () => await publisher.close?.(),
  }
  return { counted, sent: () => sent }
}

const until = async (reached: () => boolean | Promise<boolean>, what: string): Promise<void> => {
  const deadline = performance.now() + DEADLINE_MS
  while (!(await reached())) {
    if (performance.now() > deadline) throw new Error(`gave up: ${what}`)
    await sleep(1)
  }
}

const TABLES = 'outbox.deliveries, outbox.events, outbox.finished'

const reset = async ({ query }: BenchDatabase): Promise<void> => {
  await query(`TRUNCATE ${TABLES}`)
  await query(`VACUUM (ANALYZE) ${TABLES}`)
  await query('CHECKPOINT')
}

export const migrate = async ({ url }: BenchDatabase): Promise<void> => {
  const outbox = createOutbox({ store: postgresStore({ connectionString: url }), migrate: true, serve: [] })
  await outbox.start()
  await outbox.close()
}

export const drain = async (
  database: BenchDatabase,
  publisher: Publisher,
  topic: string,
  events: number,
): Promise<Measured> => {
  await reset(database)
  const { counted, sent } = counting(publisher)
  const open = (more: object) =>
    createOutbox({
      store: postgresStore({ connectionString: database.url }),
      destinations: { [NAME]: { to: counted, events: ['*'], topic, ...DESTINATION } },
      ...SETTINGS,
      ...more,
    })
  const [worker, writer] = [open({}), open({ serve: [] })]
  const settled = async (): Promise<boolean> => {
    const [row] = await database.query('SELECT EXISTS (SELECT FROM outbox.deliveries) AS unfinished')
    return row?.unfinished === false
  }
  const publish = (count: number) =>
    writer.transaction(async (tx) => {
      for (let from = 0; from < count; from += PER_STATEMENT) {
        const numbers = Array.from({ length: Math.min(PER_STATEMENT, count - from) }, (_, i) => from + i)
        await writer.publishMany(
          tx,
          numbers.map((n) => ({ type: EVENT_TYPE, key: keyOf(n), payload: payloadOf(n) })),
        )
      }
      // Without them the first reads would be planned for an empty table.
      await tx.query(`ANALYZE ${TABLES}`)
    })
  try {
    await Promise.all([worker.start(), writer.start()])
    // Connected, and everything loaded.
    await publish(1)
    await until(async () => sent() >= 1 && (await settled()), 'the first one did not arrive')
    await publish(events)
    return await measured(events, async () => {
      await until(() => sent() > events, `not all of ${events} were sent`)
      await until(settled, 'some were never settled')
    })
  } finally {
    await worker.close()
    await writer.close()
  }
}
