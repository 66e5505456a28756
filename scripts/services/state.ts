/** What must be known from one command to the next: ports, and which processes are ours. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ProcessRecord } from './processes.ts'
import { ServicesError } from './service.ts'

export interface ServiceState {
  readonly port: number
  /** Null: it was stopped, but keeps its port. */
  readonly process: ProcessRecord | null
  readonly durable: boolean
}

export type State = Record<string, ServiceState>

const fileIn = (folder: string): string => join(folder, 'state.json')

export const readState = (folder: string): State => {
  const file = fileIn(folder)
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as State
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    if (!(error instanceof SyntaxError)) throw error
    throw new ServicesError(
      `${file} cannot be read (${error.message}). End the servers that still run by hand, then delete the file.`,
    )
  }
}

/** In one step: a reader sees the old state or the new one. */
export const writeState = (folder: string, state: State): void => {
  const fresh = `${fileIn(folder)}.${process.pid}`
  writeFileSync(fresh, `${JSON.stringify(state, null, 2)}\n`)
  renameSync(fresh, fileIn(folder))
}
