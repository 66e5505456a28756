/** One soak: a run of the crew of chaos under a regime of its own, judged twice: nothing lost, and flat. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { StoreKind } from '../chaos/crew/messages.ts'
import { DESTINATIONS } from '../chaos/crew/routes.ts'
import { type FaultLine, FILES, readLog } from '../chaos/logs.ts'
import { type RunOptions, runChaos } from '../chaos/run.ts'
import { plotsOf } from './plots.ts'
import { soakRegime } from './regime.ts'
import { readRun } from './series.ts'
import { judge, type SoakVerdict } from './verdict.ts'

export interface SoakOptions extends Pick<RunOptions, 'store' | 'seed' | 'minutes' | 'label' | 'progress'> {
  readonly store: StoreKind
  readonly eventsPerSecond: number
}

export interface SoakResult {
  readonly folder: string
  /** The files of the plots. */
  readonly plots: readonly string[]
  readonly verdict: SoakVerdict
}

const faultTimes = async (folder: string, beganAt: number): Promise<number[]> => {
  const times: number[] = []
  for await (const { what, at } of readLog<FaultLine>(folder, FILES.faults))
    if (what === 'end') times.push((at - beganAt) / 1_000)
  return times
}

export const runSoak = async (options: SoakOptions): Promise<SoakResult> => {
  const { minutes, eventsPerSecond, store, seed } = options
  const regime = soakRegime(minutes, eventsPerSecond)
  const { folder, verdict: checked } = await runChaos({
    ...options,
    regime,
    destinations: DESTINATIONS,
    previous: null,
  })
  const run = await readRun(folder, regime.sampleMs ?? 0)
  const verdict = judge(checked, minutes, run)
  const footer = `${new Date().toISOString().slice(0, 10)} · ${store} · ${minutes} min · ${eventsPerSecond} events/s wanted · seed ${seed} · Node ${process.versions.node}`
  const plots = plotsOf(run, minutes * 60, await faultTimes(folder, run.beganAt), footer).map(
    ({ name, svg }) => {
      const file = join(folder, `${name}.svg`)
      writeFileSync(file, svg)
      return file
    },
  )
  writeFileSync(join(folder, 'soak.json'), `${JSON.stringify(verdict, null, 2)}\n`)
  return { folder, plots, verdict }
}
