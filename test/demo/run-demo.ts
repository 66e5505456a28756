/** The demo as a process, with only some of the libraries for SQLite. */
import { execFile } from 'node:child_process'
import { TYPESCRIPT } from '../../scripts/run.ts'
import type { SqliteDriver } from '../../src/stores/sqlite/index.ts'

export interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const moduleOf = (code: string): string => `data:text/javascript,${encodeURIComponent(code)}`

/** As where nothing but these is installed. Children of the demo are not told. */
const onlyHas = (drivers: readonly SqliteDriver[]): string => {
  const gone = ['node:sqlite', 'better-sqlite3', 'libsql'].filter(
    (name) => !(drivers as readonly string[]).includes(name),
  )
  // better-sqlite3 needs a newer Node than the root's packages, so it lies beside the tests that run under one.
  const beside = new URL('../nodes/a.mjs', import.meta.url).href
  const hooks = moduleOf(`export const resolve = (name, context, next) => {
    if (${JSON.stringify(gone)}.includes(name)) throw new Error(name + ' is not installed')
    return next(name, name === 'better-sqlite3' ? { ...context, parentURL: '${beside}' } : context)
  }`)
  return moduleOf(`import { register } from 'node:module'\nregister(${JSON.stringify(hooks)})`)
}

export const runDemo = (
  args: readonly string[],
  drivers: readonly SqliteDriver[] | null = null,
): Promise<Ended> =>
  new Promise((resolve) => {
    const only = drivers === null ? [] : ['--import', onlyHas(drivers)]
    const all = [...TYPESCRIPT, ...only, 'demo/main.ts', ...args]
    execFile(process.execPath, all, { timeout: 170_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr })
    })
  })
