/** Where runs are kept: the last few, in a folder that git does not see. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../scripts/run.ts'
import { FILES, type RunFacts } from './logs.ts'
import type { Regime } from './regime.ts'

type Kept = Pick<Regime, 'home' | 'kept'>

const homeOf = ({ home }: Kept): string => {
  const folder = join(ROOT, home)
  mkdirSync(folder, { recursive: true })
  return folder
}

/** Runs that share their servers wait for each other. */
export const lockOf = (regime: Kept, label: string, store: string): string =>
  join(homeOf(regime), `${label}-${store}.lock`)

/** Names begin with the time, so they sort by it. */
export const createFolder = (regime: Kept, seed: number, store: string): string => {
  const home = homeOf(regime)
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  const runs = readdirSync(home).filter((name) => /^\d{4}-/.test(name))
  const old = runs.toSorted().slice(0, 1 - regime.kept)
  for (const name of old) rmSync(join(home, name), { recursive: true, force: true })
  const folder = join(home, `${stamp}-${store}-${seed}`)
  mkdirSync(folder)
  return folder
}

export const writeFacts = (folder: string, facts: RunFacts): void =>
  writeFileSync(join(folder, FILES.run), `${JSON.stringify(facts, null, 2)}\n`)

export const readFacts = (folder: string): RunFacts =>
  JSON.parse(readFileSync(join(folder, FILES.run), 'utf8')) as RunFacts
