/**
 * A process of one build or another, which serves, publishes, or does both. What arrived is in the ledger before
 * anybody is told; its lines are those of test/databases/crew.
 */
import { appendFileSync } from 'node:fs'
import type { Place } from '../../chaos/crew/messages.ts'
import { loadLibrary, openStore } from '../../chaos/databases/stores.ts'
import type { Publisher } from '../../src/index.ts'
import { observeStore } from '../../src/testing/observed-store.ts'

export interface MemberTask {
  readonly place: Place
  /** Keeps the tables of a test apart from those of others. */
  readonly name: string
  /** The folder of a packed build; null: these sources. */
  readonly build: string | null
  readonly ledger: string
  readonly serves: boolean
  readonly laneLeaseMs: number
}

/** Publish these numbers one after another, in transactions of their own. */
export interface Publish {
  readonly numbers: readonly number[]
  readonly keys: number
}

export type FromMember =
  | { readonly kind: 'ready' | 'published' }
  | { readonly kind: 'refused'; readonly code: unknown }

const task = JSON.parse(process.argv[2] ?? '{}') as MemberTask
const tell = (message: FromMember): void => void process.send?.(message)
const note = (lines: readonly string[]): void =>
  appendFileSync(task.ledger, lines.map((line) => `${process.pid} ${line}\n`).join(''))
const numberOf = (data: string | Uint8Array): number => (JSON.parse(data as string) as { n: number }).n

const sink: Publisher = {
  maxBatch: 10,
  async send(deliveries) {
    note(deliveries.map(({ event }) => `got ${numberOf(event.data)}`))
    return deliveries.map(() => ({ ok: true }))
  },
}

const { createOutbox } = await loadLibrary(task.build)
const store = observeStore(await openStore(task.place, task.build, task.name), {
  changed: () => undefined,
  settled: ({ settlements }, { lost }) =>
    note(
      settlements
        .filter(({ delivery }) => !lost.includes(delivery.id))
        .map(({ delivery }) => `settled ${numberOf(delivery.event.data)}`),
    ),
})
const outbox = createOutbox({
  store,
  destinations: { sink: { to: sink, events: ['*'] } },
  ...(task.serves ? {} : { serve: [] }),
  // As a deployment does it whose migrations are a step of their own.
  migrate: false,
  laneLeaseMs: task.laneLeaseMs,
  pollIntervalMs: 50,
  pollIdleMaxMs: 200,
  logger: {
    log: (level, message) => {
      if (level === 'warn' && message.includes('was fenced')) note(['fenced'])
    },
  },
})

let ending = false
const publish = async ({ numbers, keys }: Publish): Promise<void> => {
  for (const n of numbers) {
    if (ending) return
    await outbox.transaction((tx) =>
      outbox.publish(tx, { type: 'tick', payload: { n }, key: `k${n % keys}` }),
    )
  }
  tell({ kind: 'published' })
}

process.on('message', (message: Publish) => void publish(message))
process.on('SIGTERM', () => {
  ending = true
  void outbox.close().then(() => process.exit(0))
})
process.on('disconnect', () => process.exit(1))
try {
  await outbox.start()
  tell({ kind: 'ready' })
} catch (error) {
  tell({ kind: 'refused', code: (error as { code?: unknown }).code })
}
