/** One pass over what is due, with an upper bound if there is one; then the process may end. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { LoadedOutbox } from '../../config/load-config.ts'
import { isAlive } from '../../core/inspection.ts'
import { type DeliveryStatus, UNROUTED } from '../../core/model/delivery.ts'
import { isDueAt } from '../../core/rounds.ts'
import type { AttemptMessage } from '../../core/runtime/channels.ts'
import type { WorkerView } from '../../core/spi/index.ts'
import { waitingOf } from '../overview.ts'

export interface Pass {
  claimed: number
  done: number
  retried: number
  dead: number
}

/** Attempts are heard from whatever build of the package the configuration has loaded. */
export const hearing = async <T>(
  hear: (message: AttemptMessage) => void,
  run: () => Promise<T>,
): Promise<T> => {
  const listener = (message: unknown): void => hear(message as AttemptMessage)
  subscribe('posthaste:attempt', listener)
  return await run().finally(() => unsubscribe('posthaste:attempt', listener))
}

export interface Unreachable {
  readonly destination: string
  /** Deliveries that wait for it. */
  readonly waiting: number
}

/** A pass, and the destinations whose last attempt in it met an outage: those count as nothing that was attempted. */
export const deliverAndLook = async (
  outboxes: readonly LoadedOutbox[],
  limit: number | null,
  signal: AbortSignal,
): Promise<{ readonly pass: Pass; readonly unreachable: readonly Unreachable[] }> => {
  const pass: Pass = { claimed: 0, done: 0, retried: 0, dead: 0 }
  const unreachable: Unreachable[] = []
  for (const loaded of outboxes) {
    const away = new Map<string, boolean>()
    const hear = ({ destination, deliveries }: AttemptMessage): void =>
      void away.set(
        destination,
        deliveries.some(({ verdict }) => verdict === 'outage'),
      )
    const left = limit === null ? null : limit - pass.claimed
    const one = await hearing(hear, () => deliverOnce([loaded], left, signal))
    for (const name of Object.keys(pass) as (keyof Pass)[]) pass[name] += one[name]
    if (![...away.values()].includes(true)) continue
    for (const { destination, counts } of await loaded.outbox.inspect.counts()) {
      const waiting = waitingOf(counts)
      if (away.get(destination) === true && waiting > 0) unreachable.push({ destination, waiting })
    }
  }
  return { pass, unreachable }
}

/** As a worker that is stopped: what runs may end for `drainMs`, the rest is given back. */
const stoppedBy = async <T>(
  signal: AbortSignal,
  { outbox }: LoadedOutbox,
  run: () => Promise<T>,
): Promise<T> => {
  // What it says does not matter: whatever is left is asked of the database.
  const stop = (): void => void outbox.stop().catch(() => undefined)
  signal.addEventListener('abort', stop)
  return await run().finally(() => signal.removeEventListener('abort', stop))
}

/** Delivers until nothing is due, nothing can be sent, `limit` deliveries were attempted, or the signal is given. */
export const deliverOnce = async (
  outboxes: readonly LoadedOutbox[],
  limit: number | null,
  signal: AbortSignal,
): Promise<Pass> => {
  const sum: Pass = { claimed: 0, done: 0, retried: 0, dead: 0 }
  for (const loaded of outboxes) {
    const { outbox, host, configure } = loaded
    // With a bound one destination at a time, and never more in memory than may be sent.
    const turns = limit === null ? [null] : host.served().map(({ name }) => name)
    for (const turn of turns) {
      while (!signal.aborted) {
        const left = limit === null ? null : limit - sum.claimed
        if (left !== null && left <= 0) return sum
        if (left !== null && turn !== null) {
          const { pollBatchSize, coldQueueCapacity } = host.options
          const [batch, queue] = [Math.min(left, pollBatchSize), Math.min(left, coldQueueCapacity)]
          configure({ serve: [turn], pollBatchSize: batch, coldQueueCapacity: queue })
        }
        const { claimed, done, retried, dead } = await stoppedBy(signal, loaded, () => outbox.processOnce())
        sum.claimed += claimed
        sum.done += done
        sum.retried += retried
        sum.dead += dead
        if (claimed === 0) break
      }
    }
  }
  return sum
}

export interface Left {
  /** Who else has lanes of what we serve. */
  readonly owners: readonly WorkerView[]
  readonly paused: readonly string[]
  /** Those that nobody hears here, and that no live process serves. */
  readonly unheard: readonly string[]
}

interface Meant {
  readonly served: readonly string[]
  readonly unheard: readonly string[]
}

/** To be asked before a pass, which may serve one destination after another. Where some are named, others are not meant. */
export const meantBy = (outboxes: readonly LoadedOutbox[]): ReadonlyMap<string, Meant> =>
  new Map(
    outboxes.map(({ name, host }) => [
      name,
      {
        served: host.served().map((one) => one.name),
        unheard: host.options.serve === null ? host.unheard() : [],
      },
    ]),
  )

const waitsFor = async (
  { outbox }: LoadedOutbox,
  destination: string,
  status: readonly DeliveryStatus[],
): Promise<boolean> => {
  const { deliveries } = await outbox.inspect.list({ destination, status, limit: 1 })
  return deliveries.length > 0
}

const pausedIn = async ({ host }: LoadedOutbox): Promise<readonly string[]> =>
  (await host.registered()).destinations.filter((one) => one.paused).map(({ name }) => name)

/** Something is due that a pass which was not stopped would have tried; what is paused it would have left, too. */
export const hasStoppedShort = async (
  outboxes: readonly LoadedOutbox[],
  meant: ReturnType<typeof meantBy>,
): Promise<boolean> => {
  for (const loaded of outboxes) {
    const paused = await pausedIn(loaded)
    for (const destination of meant.get(loaded.name)?.served ?? [])
      if (!paused.includes(destination) && (await isDueAt(loaded.host.store, destination))) return true
  }
  return false
}

/** Of these, the ones that something waits for and no live process serves. */
const findUnheard = async (loaded: LoadedOutbox, names: readonly string[]): Promise<readonly string[]> => {
  if (names.length === 0) return []
  const alive = (await loaded.outbox.inspect.workers()).filter(isAlive)
  const found: string[] = []
  for (const name of names) {
    if (alive.some(({ destinations }) => destinations.includes(name))) continue
    if (await waitsFor(loaded, name, ['pending', 'retry'])) found.push(name)
  }
  return found
}

/** Why something that waits was not delivered; empty when nothing waits. */
export const findLeft = async (
  outboxes: readonly LoadedOutbox[],
  meant: ReturnType<typeof meantBy>,
): Promise<Left> => {
  const owners: WorkerView[] = []
  const paused: string[] = []
  const unheard: string[] = []
  for (const loaded of outboxes) {
    const { outbox } = loaded
    const { served, unheard: silent } = meant.get(loaded.name) ?? { served: [], unheard: [] }
    unheard.push(...(await findUnheard(loaded, silent)))
    const stopped = await pausedIn(loaded)
    const waiting: string[] = []
    for (const destination of [UNROUTED, ...served]) {
      const isStopped = stopped.includes(destination)
      // What is to be tried again may simply not be due yet.
      if (await waitsFor(loaded, destination, isStopped ? ['pending', 'retry'] : ['pending']))
        (isStopped ? paused : waiting).push(destination)
    }
    if (waiting.length === 0) continue
    const workers = await outbox.inspect.workers()
    // What is not routed yet waits for any of them.
    const among = waiting.includes(UNROUTED) ? served : waiting
    const serves = ({ destinations: theirs }: WorkerView) => among.some((name) => theirs.includes(name))
    owners.push(...workers.filter((worker) => !worker.fenced && worker.lanes > 0 && serves(worker)))
  }
  return { owners, paused, unheard }
}
