/**
 * Takes a destination out of service for good: from now on it hears nothing, and what waited for it or died is given up. Its
 * row stays in the registry without patterns, because the version of the registry is the highest of its rows and must not
 * shrink. Processes whose routes are older add deliveries until they renew; running it again gives those up, too.
 */
import { type BulkAct, inSteps } from './bulk.ts'
import { findRegistered } from './destinations.ts'
import { ERROR_CODES, OutboxError } from './errors.ts'
import { isAlive } from './inspection.ts'
import type { OperatorAct, Runtime, Store } from './spi/index.ts'

export interface Retired {
  /** Deliveries that were given up; with `dryRun`, how many it would be. */
  readonly discarded: number
  /** Deliveries that are still there: stopped before them, being sent at this moment, or added meanwhile; run it again for them. */
  readonly left: number
}

interface RetireParts {
  readonly store: Store
  readonly runtime: Runtime
  readonly changed: () => Promise<void>
}

/** As many as are chosen at a time. */
const ROUND = 100_000

export const retire = async (
  parts: RetireParts,
  name: string,
  act: BulkAct,
  by: OperatorAct,
): Promise<Retired> => {
  const { store } = parts
  await findRegistered(store.registry, name)
  await refuseWhileServed(store, name)
  if (act.dryRun === true) {
    const left = await countLeft(store, name)
    return { discarded: left, left }
  }
  await store.registry.declare([{ name, patterns: [] }], by)
  // One that was starting did not count yet. It brings the destination back, and what waits for it is its to send.
  await refuseWhileServed(store, name)
  let discarded = 0
  let chosen = ROUND
  while (chosen >= ROUND && act.signal?.aborted !== true) {
    const before = discarded
    const onProgress: BulkAct['onProgress'] = ({ done, total }) => {
      chosen = total
      act.onProgress?.({ done: before + done, total: before + total })
    }
    const target = { destination: name, limit: ROUND }
    const count = await inSteps(parts, 'discard', target, { ...act, onProgress }, by)
    discarded += count
    // Others may have been faster with all of them.
    if (count === 0) break
  }
  return { discarded, left: await countLeft(store, name) }
}

/** It would go on sending, and routes by what it declares itself. */
const refuseWhileServed = async (store: Store, name: string): Promise<void> => {
  const serving = (await store.inspection.workers()).filter(
    (worker) => isAlive(worker) && worker.destinations.includes(name),
  )
  if (serving.length === 0) return
  const seconds = Math.ceil(Math.max(...serving.map(({ expiresInMs }) => expiresInMs)) / 1_000)
  throw new OutboxError(
    ERROR_CODES.conflict,
    `"${name}" is served by ${serving.map((worker) => worker.name).join(', ')}: deploy without it first, then retire it. ` +
      `A process that was killed counts until its lease runs out, in ${seconds} s`,
    { destination: name, workers: serving.map(({ workerId }) => workerId) },
  )
}

const countLeft = async (store: Store, name: string): Promise<number> => {
  const found = (await store.inspection.counts()).find(({ destination }) => destination === name)
  if (found === undefined) return 0
  const { pending, retry, scheduled, held, dead } = found.counts
  return pending + retry + scheduled + held + dead
}
