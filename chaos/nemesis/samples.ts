/** Measures processes and tables again and again while a run goes on. */
import { readdirSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { createOutbox } from '../../src/index.ts'
import type { Place } from '../crew/messages.ts'
import { openStore } from '../databases/stores.ts'
import { FILES, Log, type SampleLine } from '../logs.ts'
import type { World } from './fault.ts'

const openFiles = (pid: number): number | null => {
  try {
    return readdirSync(`/proc/${pid}/fd`).length
  } catch {
    // It has just ended, or the system has no such folder.
    return null
  }
}

const processesOf = ({ crew }: World): SampleLine['processes'] =>
  Object.fromEntries(
    crew.vitals.map(({ slot, pid, rssBytes, handles }) => [
      slot,
      { pid, rssBytes, handles, files: openFiles(pid) },
    ]),
  )

export const startSampling = (world: World, place: Place): { stop(): Promise<void> } => {
  const { sampleMs } = world.task.regime
  if (sampleMs === null) return { stop: async () => undefined }
  const ended = new AbortController()
  const over = sampleUntil(world, place, sampleMs, ended.signal)
  return {
    async stop() {
      ended.abort()
      await over
    },
  }
}

const sampleUntil = async (
  world: World,
  place: Place,
  sampleMs: number,
  signal: AbortSignal,
): Promise<void> => {
  const log = new Log(world.task.folder, FILES.samples)
  const outbox = createOutbox({ store: await openStore(place, null), migrate: false })
  while (!signal.aborted) {
    await pause(sampleMs, null, { signal }).catch(() => undefined)
    const processes = processesOf(world)
    try {
      const counts = await outbox.inspect.counts()
      const waiting = counts.reduce(
        (sum, { counts: { pending, retry, scheduled, held } }) => sum + pending + retry + scheduled + held,
        0,
      )
      const oldestMs = Math.max(0, ...counts.map(({ oldestLagMs }) => oldestLagMs ?? 0))
      const sizes = await world.hand.sizes()
      log.write([{ at: Date.now(), processes, ...sizes, waiting, oldestMs } satisfies SampleLine], false)
    } catch (error) {
      // A fault may have cut this connection; the next sample has another.
      console.log(new Date().toISOString(), 'no sample', error)
    }
  }
  await outbox.close()
  log.close()
}
