/** The benchmark of brokers itself, under npm's Node 24; `npm run bench:brokers` (../brokers.ts) prepares and starts it. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../scripts/run.ts'
import { messages as formatted } from '../../src/publishers/shared/message.ts'
import { machine } from '../machine.ts'
import { type BenchDatabase, createDatabase } from '../peers/database.ts'
import { EVENT_TYPE, payloadOf } from '../peers/payload.ts'
import { Series } from '../peers/series.ts'
import { type Carrier, type Measured, measured, type RawMessage, WINDOW } from './carriers.ts'
import { DESTINATION, drain, KEYS, keyOf, migrate, nowhere } from './drain.ts'
import { kafka } from './kafka.ts'
import { mqtt } from './mqtt.ts'
import { nats } from './nats.ts'
import { rabbitmq } from './rabbitmq.ts'
import { redis } from './redis.ts'
import type { BrokerFigures, BrokersResult } from './result.ts'

export interface Settings {
  readonly command: string
  readonly postgres: string
  /** Addresses by the name of the carrier; those that are absent are not measured. */
  readonly urls: Readonly<Record<string, string>>
  readonly rounds: number
  readonly events: number
}

const CARRIERS: readonly Carrier[] = [kafka, rabbitmq, redis, nats, mqtt]
/** Of the client alone. */
const TARGET = 0.5

const plain = formatted({}, '')

/** What Posthaste sends for such an event. */
const rawMessages = (events: number): RawMessage[] =>
  Array.from({ length: events }, (_, n) => {
    const id = `01937b5a-0000-7000-8000-${String(n).padStart(12, '0')}`
    const data = JSON.stringify(payloadOf(n))
    const now = Date.now()
    const event = {
      id,
      type: EVENT_TYPE,
      version: 1,
      key: keyOf(n),
      aggregateType: null,
      aggregateId: null,
      tenantId: null,
      headers: {},
      contentType: 'application/json',
      size: data.length,
      occurredAtMs: now,
      createdAtMs: now,
      replacesId: null,
      data,
    }
    const delivery = { deliveryId: id, event, attempt: 1, run: 1, deduplicationId: id, topic: '' }
    return { ...plain(delivery), id, key: event.key }
  })

const measureRaw = async (
  carrier: Carrier,
  url: string,
  messages: readonly RawMessage[],
): Promise<Measured> => {
  const place = await carrier.open(url)
  const raw = await place.raw()
  try {
    const [first, ...others] = messages
    await raw.send([first as RawMessage])
    return await measured(others.length, () => raw.send(others))
  } finally {
    await raw.close()
    await place.remove()
  }
}

const measureOurs = async (
  database: BenchDatabase,
  carrier: Carrier,
  url: string,
  events: number,
): Promise<Measured> => {
  const place = await carrier.open(url)
  try {
    return await drain(database, place.publisher(), place.topic, events)
  } finally {
    await place.remove()
  }
}

const clientOf = ({ client }: Carrier): string => {
  const path = join(ROOT, 'node_modules', client, 'package.json')
  return `${client} ${(JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version}`
}

const figuresOf = (series: Series, carrier: Carrier): BrokerFigures => {
  const [posthaste, raw] = [series.figure(`${carrier.name}/posthaste`), series.figure(`${carrier.name}/raw`)]
  const both = posthaste.median !== null && raw.median !== null
  const ratio = both ? Number(((posthaste.median ?? 0) / (raw.median ?? 1)).toFixed(2)) : null
  return {
    client: clientOf(carrier),
    posthaste,
    raw,
    ratio,
    met: ratio !== null && ratio >= TARGET,
    cpuMicros: {
      posthaste: series.figure(`${carrier.name}/posthaste/cpu`),
      raw: series.figure(`${carrier.name}/raw/cpu`),
    },
  }
}

const measure = async ({ command, postgres, urls, rounds, events }: Settings): Promise<BrokersResult> => {
  const database = await createDatabase(postgres)
  const series = new Series()
  const failures: string[] = []
  const carriers = CARRIERS.filter(({ name }) => urls[name] !== undefined)
  const note = async (path: string, work: () => Promise<Measured>): Promise<void> => {
    try {
      const { perSecond, cpuMicros } = await work()
      series.add(path, perSecond)
      series.add(`${path}/cpu`, cpuMicros)
      const rate = Math.round(perSecond).toLocaleString('en-US').padStart(8)
      console.log(`  ${path.padEnd(24)} ${rate} /s ${cpuMicros.toFixed(1).padStart(8)} µs`)
    } catch (error) {
      failures.push(`${path}: ${(error as Error).message}`)
      series.explain(path, (error as Error).message)
      console.log(`  ${path.padEnd(24)} FAILED ${(error as Error).message}`)
    }
  }
  try {
    await migrate(database)
    const messages = rawMessages(events)
    for (let round = 0; round < rounds; round += 1) {
      console.log(`Round ${round + 1} of ${rounds}`)
      await note('ceiling', () => drain(database, nowhere(), 'nowhere', events))
      for (const carrier of carriers) {
        const url = urls[carrier.name] as string
        const ours = () =>
          note(`${carrier.name}/posthaste`, () => measureOurs(database, carrier, url, events))
        const raw = () => note(`${carrier.name}/raw`, () => measureRaw(carrier, url, messages))
        // Whoever comes second finds warmer caches.
        for (const each of round % 2 === 0 ? [ours, raw] : [raw, ours]) await each()
      }
    }
  } finally {
    await database.drop()
  }
  return {
    kind: 'brokers',
    date: new Date().toISOString(),
    command,
    machine: machine(),
    node: process.version,
    postgres: database.server,
    settings: {
      rounds,
      events,
      payloadBytes: JSON.stringify(payloadOf(0)).length,
      keys: KEYS,
      ...DESTINATION,
      window: WINDOW,
    },
    ceiling: { ...series.figure('ceiling'), cpuMicros: series.figure('ceiling/cpu') },
    target: TARGET,
    brokers: Object.fromEntries(carriers.map((carrier) => [carrier.name, figuresOf(series, carrier)])),
    failures,
  }
}

const [settings, path] = process.argv.slice(2)
if (settings === undefined || path === undefined)
  throw new Error('started by npm run bench:brokers, not by hand')
writeFileSync(path, `${JSON.stringify(await measure(JSON.parse(settings) as Settings), null, 2)}\n`)
