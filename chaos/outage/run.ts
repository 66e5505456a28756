/**
 * A broker that is away for a while under load: the real broker and PostgreSQL, both of their own, and a process that
 * publishes and serves the broker and a listener.
 */
import { setTimeout as pause } from 'node:timers/promises'
import pg from 'pg'
import { killService, removeService, startService } from '../../scripts/services/index.ts'
import { withLock } from '../../scripts/services/lock.ts'
import {
  createCountingMetrics,
  createOutbox,
  exponential,
  type Metrics,
  type Outbox,
} from '../../src/index.ts'
import { type PostgresHandle, postgresStore } from '../../src/stores/postgres/index.ts'
import { ANSWER_WITHIN_MS, type Arrival, type BrokerKind, type Kit, loadKit, TOPIC } from '../brokers/kit.ts'
import { type BrokerPlace, openBroker } from '../brokers/place.ts'
import { lockOf } from '../folders.ts'
import { CHAOS } from '../regime.ts'
import { Load, NUMBER_HEADER, TYPE } from './load.ts'
import type { Figures } from './verdict.ts'

export interface OutageOptions {
  readonly broker: BrokerKind
  /** For how long the broker is away. */
  readonly seconds: number
  readonly eventsPerSecond: number
  /** Names the servers. */
  readonly label: string
  readonly progress: (text: string) => void
}

const MAX_ATTEMPTS = 3
const SCHEMA = 'outage'
const LISTENER = 'listener'
const DRAIN_WITHIN_MS = 180_000
const LOOK_EVERY_MS = 100

/** Metrics are what an operator sees; when they said that the breaker was open. */
class BreakerWatch {
  readonly #openings: number[] = []
  #openSince: number | null = null
  #openMs = 0

  metricsFor(broker: string): Metrics {
    return {
      ...createCountingMetrics(),
      breakerState: (destination, state) => {
        if (destination === broker) this.#see(state !== 'closed')
      },
    }
  }

  since(at: number, now: number): Figures['breaker'] {
    const first = this.#openings[0]
    const openMs = this.#openMs + (this.#openSince === null ? 0 : now - this.#openSince)
    return {
      openAfterMs: first === undefined ? null : Math.max(0, Math.round(first - at)),
      openShare: Math.round((openMs / (now - at)) * 100) / 100,
    }
  }

  #see(isOpen: boolean): void {
    const now = performance.now()
    if (isOpen && this.#openSince === null) {
      this.#openings.push(now)
      this.#openSince = now
    } else if (!isOpen && this.#openSince !== null) {
      this.#openMs += now - this.#openSince
      this.#openSince = null
    }
  }
}

/** Unfinished deliveries of a destination. */
const waitingAt = async (outbox: Outbox<PostgresHandle>, destination: string): Promise<number> => {
  const all = (await outbox.inspect.counts()).filter((each) => each.destination === destination)
  return all.reduce(
    (sum, { counts: { pending, retry, scheduled, held } }) => sum + pending + retry + scheduled + held,
    0,
  )
}

const untilDrained = async (
  outbox: Outbox<PostgresHandle>,
  destinations: readonly string[],
): Promise<boolean> => {
  const deadline = performance.now() + DRAIN_WITHIN_MS
  while (performance.now() < deadline) {
    const waiting = await Promise.all(destinations.map((each) => waitingAt(outbox, each)))
    if (waiting.every((count) => count === 0)) return true
    await pause(LOOK_EVERY_MS)
  }
  return false
}

/** A delivery that is sent at once has one attempt in the end. */
const readDatabase = async (
  url: string,
  broker: string,
): Promise<Pick<Figures, 'dead' | 'attemptsSpent'>> => {
  const client = new pg.Client(url)
  await client.connect()
  try {
    const sql = `SELECT (SELECT count(*) FROM ${SCHEMA}.deliveries WHERE destination = $1 AND status = 3)::int AS dead,
      (SELECT coalesce(sum(attempts), 0) FROM ${SCHEMA}.deliveries WHERE destination = $1)::int +
      (SELECT coalesce(sum(attempts - 1), 0) FROM ${SCHEMA}.finished WHERE destination = $1)::int AS spent`
    const [row] = (await client.query<{ dead: number; spent: number }>(sql, [broker])).rows
    return { dead: row?.dead ?? 0, attemptsSpent: row?.spent ?? 0 }
  } finally {
    await client.end()
  }
}

const readBroker = async (kit: Kit, url: string): Promise<Arrival[]> => {
  const reading = await kit.read(url)
  const found: Arrival[] = []
  for (;;) {
    const arrivals = await reading.next()
    if (arrivals.length === 0) break
    found.push(...arrivals)
  }
  await reading.close()
  return found
}

/** First arrivals of a key that came after a later one. */
const disorderOf = (arrivals: readonly Arrival[]): number => {
  const latest = new Map<string, number>()
  const seen = new Set<string>()
  let count = 0
  for (const { key, headers } of arrivals) {
    const number = Number(headers[NUMBER_HEADER])
    const id = headers['event-id'] as string
    if (key === null || seen.has(id)) continue
    seen.add(id)
    if (number < (latest.get(key) ?? -1)) count += 1
    latest.set(key, Math.max(number, latest.get(key) ?? -1))
  }
  return count
}

const measure = async (
  { broker, seconds, eventsPerSecond, progress }: OutageOptions,
  place: BrokerPlace,
  databaseUrl: string,
): Promise<Figures> => {
  const kit = await loadKit(broker)
  const watch = new BreakerWatch()
  const retry = exponential({ maxAttempts: MAX_ATTEMPTS })
  await using outbox = createOutbox({
    store: postgresStore({ connectionString: databaseUrl, schema: SCHEMA }),
    migrate: true,
    metrics: watch.metricsFor(broker),
    destinations: {
      [broker]: {
        to: kit.publisher(place.url),
        events: [TYPE],
        topic: TOPIC,
        retry,
        timeoutMs: ANSWER_WITHIN_MS,
      },
      [LISTENER]: { events: [TYPE], retry },
    },
  })
  const load = new Load(outbox as never, eventsPerSecond)
  outbox.on(LISTENER, '*', async ({ id }) => load.hear(id))
  await outbox.start()
  const quietMs = Math.max(2_000, (seconds * 1_000) / 4)

  progress(`${eventsPerSecond} events a second, everything works`)
  load.start()
  await pause(quietMs)

  progress(`the broker is killed, for ${seconds} s`)
  await killService(place.name)
  load.enter('during')
  const killedAt = performance.now()
  await pause(seconds * 1_000)
  const waitingAtEnd = await waitingAt(outbox as never, broker)
  const breaker = watch.since(killedAt, performance.now())
  progress(`${waitingAtEnd} deliveries wait; the broker is started`)
  const url = await startService(place.name)
  const backAt = performance.now()
  load.enter('after')
  if (url !== place.url) throw new Error(`the broker came back elsewhere, at ${url}`)

  await pause(quietMs)
  await load.stop()
  progress('no new events; what waits is delivered')
  const isDrained = await untilDrained(outbox as never, [broker, LISTENER])
  const recoveryMs = isDrained ? Math.round(performance.now() - backAt) : null

  const arrivals = await readBroker(kit, place.url)
  const found = new Set(arrivals.map(({ headers }) => headers['event-id'] as string))
  const { committed } = load
  const delivered = [...committed].filter((id) => found.has(id)).length
  return {
    broker,
    seconds,
    awayMs: Math.round(backAt - killedAt),
    committed: committed.size,
    delivered,
    lost: committed.size - delivered,
    duplicates: arrivals.length - found.size,
    outOfOrder: disorderOf(arrivals),
    ...(await readDatabase(databaseUrl, broker)),
    waitingAtEnd,
    breaker,
    recoveryMs,
    other: { before: load.pace('before'), during: load.pace('during'), after: load.pace('after') },
    otherLost: load.unheard,
  }
}

export const runOutage = async (options: OutageOptions): Promise<Figures> => {
  const { broker, label } = options
  const both = `${label}${broker}`
  const database = `postgres@${both}`
  return await withLock(
    lockOf(CHAOS, label, broker),
    async () => {
      await removeService(database)
      const databaseUrl = await startService(database)
      const place = await openBroker(broker, both)
      try {
        return await measure(options, place, databaseUrl)
      } finally {
        await removeService(place.name)
        await removeService(database)
      }
    },
    (pid) => console.error(`Waiting for process ${pid}, which uses the same servers.`),
  )
}
