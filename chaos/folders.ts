/** Where runs are kept: the last few, in a folder that git does not see. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../scripts/run.ts'
import { FILES, type RunFacts } from './logs.ts'

const KEPT = 8
const HOME = join(ROOT, '.chaos')

/** Names begin with the time, so they sort by it. */
export const createFolder = (seed: number, store: string): string => {
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(':', '')
  mkdirSync(HOME, { recursive: true })
  const old = readdirSync(HOME)
    .toSorted()
    .slice(0, 1 - KEPT)
  for (const name of old) rmSync(join(HOME, name), { recursive: true, force: true })
  const folder = join(HOME, `${stamp}-${store}-${seed}`)
  mkdirSync(folder)
  return folder
}

export const writeFacts = (folder: string, facts: RunFacts): void =>
  writeFileSync(join(folder, FILES.run), `${JSON.stringify(facts, null, 2)}\n`)

export const readFacts = (folder: string): RunFacts =>
  JSON.parse(readFileSync(join(folder, FILES.run), 'utf8')) as RunFacts
