/** Steps of a long run of tests: each a program, with its time and what came of it. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { heading, ROOT } from './run.ts'
import { NO_OPTIONS } from './usage.ts'

export interface Step {
  readonly name: string
  readonly command: readonly [string, ...string[]]
  readonly env?: Readonly<Record<string, string>>
}

interface Result {
  readonly name: string
  readonly ok: boolean
  readonly seconds: number
}

export const STEP_OPTIONS = { ...NO_OPTIONS, json: { type: 'boolean', default: false } } as const

/** The command of a script of ours. */
export const script = (path: string, ...args: readonly string[]): Step['command'] => [
  'node',
  '--import',
  'tsx',
  path,
  ...args,
]

export const BUILD: Step = { name: 'Build', command: ['tsdown', '--log-level', 'warn'] }

const results: Result[] = []

/** `aside`: beside others, so what it says is shown when it has ended. */
export const runStep = async (
  { name, command: [program, ...args], env }: Step,
  { aside }: { readonly aside: boolean },
): Promise<boolean> => {
  const started = performance.now()
  const PATH = `${join(ROOT, 'node_modules', '.bin')}:${process.env.PATH ?? ''}`
  if (!aside) heading(name)
  const child = spawn(program, args, {
    cwd: ROOT,
    env: { ...process.env, PATH, ...env },
    stdio: aside ? ['ignore', 'pipe', 'pipe'] : 'inherit',
  })
  const said: Buffer[] = []
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (bytes: Buffer) => said.push(bytes))
  const ok = await new Promise<boolean>((resolve) => {
    child.once('error', (error) => {
      said.push(Buffer.from(`${program}: ${error.message}\n`))
      resolve(false)
    })
    child.once('close', (code) => resolve(code === 0))
  })
  if (aside) heading(name)
  process.stdout.write(Buffer.concat(said))
  results.push({ name, ok, seconds: Math.round((performance.now() - started) / 1000) })
  return ok
}

/** What came of the steps that were run; the exit code. */
export const reportSteps = (suite: string, ok: boolean, json: boolean): number => {
  heading('Summary')
  for (const { name, ok, seconds } of results)
    console.log(`${name.padEnd(50)} ${ok ? 'ok' : 'FAILED'} ${seconds} s`)
  const failed = results.filter((result) => !result.ok).length
  if (json) console.log(JSON.stringify({ suite, passed: results.length - failed, failed, steps: results }))
  return ok ? 0 : 1
}
