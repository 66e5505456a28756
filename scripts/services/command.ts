/** Runs programs to their end, and launches servers that stay. */
import { type SpawnOptions, spawn } from 'node:child_process'
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { type Account, type Command, ServicesError } from './service.ts'

const KEPT_LINES = 15
const KEPT_BYTES = 64 * 1024

export interface RunOptions {
  readonly account?: Account | null
  readonly input?: string
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

export const lastLines = (text: string): string => text.trimEnd().split('\n').slice(-KEPT_LINES).join('\n')

/** Servers get a small environment of their own, so that they behave alike whoever starts them. */
const serverEnv = (home: string): Record<string, string> => ({
  PATH: process.env.PATH ?? '',
  HOME: home,
  LANG: 'C',
  TZ: 'UTC',
})

/** Resolves with what the program printed; rejects with its last words, also those on standard error. */
export const run = async ({ program, args }: Command, options: RunOptions = {}): Promise<string> =>
  await new Promise((resolve, reject) => {
    const spawnOptions: SpawnOptions = {
      cwd: options.cwd ?? '/',
      env: options.account ? serverEnv(options.cwd ?? '/') : { ...process.env, ...options.env },
      ...options.account,
    }
    const child = spawn(program, args, { ...spawnOptions, stdio: 'pipe' })
    let printed = ''
    let words = ''
    child.stdout.on('data', (bytes: Buffer) => {
      printed = (printed + bytes.toString()).slice(-KEPT_BYTES)
      words = (words + bytes.toString()).slice(-KEPT_BYTES)
    })
    child.stderr.on('data', (bytes: Buffer) => {
      words = (words + bytes.toString()).slice(-KEPT_BYTES)
    })
    // A program that ends early does not read the rest; its exit code says what happened.
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
    child.on('error', (error) => reject(new ServicesError(`${program}: ${error.message}`)))
    child.on('close', (code, signal) => {
      if (code === 0) resolve(printed)
      else reject(new ServicesError(`${program} ended with ${signal ?? code}:\n${lastLines(words)}`))
    })
  })

/** Starts a server that outlives us, its output appended to the log. */
export const launch = (
  { program, args, env }: Command,
  home: string,
  log: string,
  account: Account | null,
): number | null => {
  const output = openSync(log, 'a')
  try {
    const child = spawn(program, args, {
      cwd: home,
      env: { ...serverEnv(home), ...env },
      detached: true,
      stdio: ['ignore', output, output],
      ...account,
    })
    // Without a listener a program that cannot be run would end us; the missing process is noticed anyway.
    child.on('error', () => {})
    child.unref()
    return child.pid ?? null
  } finally {
    closeSync(output)
  }
}

export const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** What was written to the file since it had this size, or the end of it. */
export const readSince = (file: string, size: number): string => {
  const start = Math.max(size, sizeOf(file) - KEPT_BYTES)
  const buffer = Buffer.alloc(Math.max(0, sizeOf(file) - start))
  if (buffer.length === 0) return ''
  const descriptor = openSync(file, 'r')
  try {
    return buffer.subarray(0, readSync(descriptor, buffer, 0, buffer.length, start)).toString()
  } finally {
    closeSync(descriptor)
  }
}
