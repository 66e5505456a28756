/** Where runs are kept: the last few, in a folder that git does not see. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../scripts/run.ts'
import { FILES, type RunFacts } from './logs.ts'

const KEPT = 8
const HOME = join(ROOT, '.chaos')

/** Runs that share their servers wait for each other. */
export const lockOf = (label: string, store: string): string => {
  mkdirSync(HOME, { recursive: true })
  return join(HOME, `${label}-${store}.lock`)
}

/** Names begin with the time, so they sort by it. */
export const createFolder = (seed: number, store: string): string => {
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  mkdirSync(HOME, { recursive: true })
  const runs = readdirSync(HOME).filter((name) => /^\d{4}-/.test(name))
  const old = runs.toSorted().slice(0, 1 - KEPT)
  for (const name of old) rmSync(join(HOME, name), { recursive: true, force: true })
  const folder = join(HOME, `${stamp}-${store}-${seed}`)
  mkdirSync(folder)
  return folder
}

export const writeFacts = (folder: string, facts: RunFacts): void =>
  writeFileSync(join(folder, FILES.run), `${JSON.stringify(facts, null, 2)}\n`)

export const readFacts = (folder: string): RunFacts =>
  JSON.parse(readFileSync(join(folder, FILES.run), 'utf8')) as RunFacts
