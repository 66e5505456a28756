/**
 * One process of the crew: it produces, or serves, or both, until it is told to end, or killed. A member that serves
 * notes what the database confirmed; the sink notes what was sent.
 */
import { type DestinationOptions, PermanentError, type Publisher } from '../../src/index.ts'
import { observeStore } from '../../src/testing/observed-store.ts'
import { ANSWER_WITHIN_MS, isBroker, loadKit, TOPIC } from '../brokers/kit.ts'
import { loadLibrary, openStore } from '../databases/stores.ts'
import { Log, type SettledLine, settledFile } from '../logs.ts'
import type { FromMember, MemberTask, SinkSend, ToMember } from './messages.ts'
import { Producer } from './producer.ts'
import { typesOf } from './routes.ts'
import { sendsOf } from './sends.ts'
import { SinkClient } from './sink-client.ts'

const task = JSON.parse(process.argv[2] ?? '{}') as MemberTask
const { slot, boot, folder, destinations, leaseMs, maxAttempts } = task
const tell = (message: FromMember): void => void process.send?.(message)

const library = await loadLibrary(task.build)
const sink = new SinkClient(task.sinkPort)
const settled = new Log(folder, settledFile(slot))
let done = 0

const note = (lines: readonly Omit<SettledLine, 'at' | 'boot'>[]): void =>
  settled.write(
    lines.map((line) => ({ at: Date.now(), boot, ...line })),
    false,
  )

type Result = { readonly ok: true } | { readonly ok: false; readonly error: unknown }

const sendTo = async (destination: string, sends: readonly SinkSend[]): Promise<readonly Result[]> => {
  const answers = await sink.send({ slot, boot, destination, sends })
  return answers.map((answer) => {
    if (answer === 'ok') return { ok: true }
    const error = answer === 'dead' ? new PermanentError('refused for good') : new Error('not now')
    return { ok: false, error }
  })
}

type Orders = Pick<SinkSend, 'failures' | 'fate'>

const sinkPublisher = (destination: string): Publisher => ({
  maxBatch: destination === 'batch' ? 20 : 1,
  send: (deliveries) =>
    sendTo(
      destination,
      deliveries.map(({ event, run, attempt }) => {
        const { failures, fate } = JSON.parse(event.data as string) as Orders
        return { event: event.id, run, attempt, failures, fate }
      }),
    ),
})

const broker = destinations.find(isBroker)
const kit = broker === undefined ? null : await loadKit(broker)

const optionsOf = (destination: string): DestinationOptions => {
  const common: DestinationOptions = {
    events: typesOf(destination),
    retry: library.exponential({ baseMs: 50, maxMs: 1_000, maxAttempts }),
    breaker: { openMs: 200, maxOpenMs: 1_000 },
  }
  if (destination === 'listener') return common
  if (kit === null || destination !== broker) return { ...common, to: sinkPublisher(destination) }
  const to = sendsOf(kit.publisher(task.brokerUrl as string), boot)
  return { ...common, to, topic: TOPIC, timeoutMs: ANSWER_WITHIN_MS }
}

const store = observeStore(await openStore(task.place, task.build), {
  changed: () => undefined,
  settled: ({ settlements }, { lost }) => {
    const ended = settlements.filter(({ outcome }) => outcome.kind === 'done')
    done += ended.length
    note(
      ended.map(({ delivery: { id, event, destination, run } }) => ({
        what: lost.includes(id) ? 'lost' : 'done',
        event: event.id,
        destination,
        run,
      })),
    )
  },
})

const outbox = library.createOutbox({
  store,
  destinations: Object.fromEntries(destinations.map((each) => [each, optionsOf(each)])),
  ...(task.serves ? {} : { serve: [] }),
  migrate: false,
  laneLeaseMs: leaseMs,
  hotLeaseMs: leaseMs,
  pollIntervalMs: 100,
  pollIdleMaxMs: 500,
  drainMs: 5_000,
  ...(task.regime.cleanupMs === null
    ? {}
    : { cleanupIntervalMs: task.regime.cleanupMs, retentionDoneHours: 0, retentionDedupHours: 0 }),
  logger: {
    log: (level, message, fields) => {
      if (message.includes('was fenced')) note([{ what: 'fenced', ms: leaseMs }])
      if (level === 'warn' || level === 'error')
        console.log(new Date().toISOString(), boot, level, message, fields)
    },
  },
})

if (task.serves && destinations.includes('listener')) {
  outbox.on<Orders>('listener', '*', async ({ id, payload: { failures, fate } }, { run, attempt }) => {
    const [result] = await sendTo('listener', [{ event: id, run, attempt, failures, fate }])
    if (result?.ok === false) throw result.error
  })
}

/** A machine that is too busy looks like a pause to everybody else. */
const watchStalls = (): void => {
  const EVERY_MS = 200
  let before = performance.now()
  setInterval(() => {
    const ms = performance.now() - before - EVERY_MS
    before = performance.now()
    if (ms > leaseMs / 3) note([{ what: 'stalled', ms: Math.round(ms) }])
  }, EVERY_MS).unref()
}

const producer = task.produces ? new Producer(task, outbox) : null
process.on('message', (message: ToMember) => {
  if (message.kind === 'hold') void producer?.hold(message.ms).then(() => tell({ kind: 'held' }))
  if (message.kind === 'stop-producing')
    void (producer?.stop() ?? Promise.resolve()).then(() => tell({ kind: 'stopped-producing' }))
})
const end = async (): Promise<void> => {
  await producer?.stop()
  await outbox.close()
  sink.close()
  process.exit(0)
}
process.on('SIGTERM', () => void end())
// Whoever started us is gone; nobody will end us otherwise.
process.on('disconnect', () => process.exit(1))

/** The database may be away just now. */
const start = async (): Promise<void> => {
  for (;;) {
    try {
      // One that only produces is not started: it does not know the routes, and others expand what it stores.
      if (task.serves) await outbox.start()
      return
    } catch (error) {
      console.log(new Date().toISOString(), boot, 'start', error)
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
}

watchStalls()
await start()
tell({ kind: 'ready' })
const count = (): void =>
  tell({
    kind: 'counted',
    committed: producer?.committed ?? 0,
    done,
    rssBytes: process.memoryUsage.rss(),
    handles: process.getActiveResourcesInfo().length,
  })
setInterval(count, 500).unref()
await producer?.run()
