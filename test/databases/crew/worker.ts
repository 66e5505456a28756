/**
 * A process that delivers into a ledger: one file that all processes append to, whole lines at a time, which
 * survives a SIGKILL.
 *
 *   <pid> got <n>        before anybody is told that it arrived
 *   <pid> settled <n>    after the database confirmed it
 *   <pid> fenced         its rights were void from here on
 */
import { appendFileSync } from 'node:fs'
import { createOutbox, type Publisher } from '../../../src/index.ts'
import { observeStore } from '../../../src/testing/observed-store.ts'
import { type Place, storeAt } from './stores.ts'

export interface WorkerTask {
  readonly place: Place
  readonly ledger: string
  readonly laneLeaseMs: number
}

const { place, ledger, laneLeaseMs } = JSON.parse(process.argv[2] ?? '{}') as WorkerTask

const note = (lines: readonly string[]): void =>
  appendFileSync(ledger, lines.map((line) => `${process.pid} ${line}\n`).join(''))

// A run that is broken off leaves nobody behind.
process.once('disconnect', () => process.exit())

const numberOf = (data: string | Uint8Array): string => JSON.parse(data as string).n

const sink: Publisher = {
  maxBatch: 20,
  async send(deliveries) {
    note(deliveries.map(({ event }) => `got ${numberOf(event.data)}`))
    return deliveries.map(() => ({ ok: true }))
  },
}

const store = observeStore(storeAt(place), {
  changed: () => undefined,
  settled: ({ settlements }, { lost }) => {
    const written = settlements.filter(({ delivery }) => !lost.includes(delivery.id))
    note(written.map(({ delivery }) => `settled ${numberOf(delivery.event.data)}`))
  },
})

const outbox = createOutbox({
  store,
  destinations: { sink: { to: sink, events: ['*'] } },
  laneLeaseMs,
  pollIntervalMs: 50,
  pollIdleMaxMs: 200,
  logger: {
    log: (level, message) => {
      if (level === 'warn' && message.includes('was fenced')) note(['fenced'])
    },
  },
})
await outbox.start()
process.send?.('ready')
