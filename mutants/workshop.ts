/** A copy of the repository in a temporary folder, in which defects are planted and hunted. The checkout stays as it is. */
import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { commandOf } from './hunters.ts'
import { type Hunter, type Mutant, mutate } from './mutant.ts'

export const ROOT = join(import.meta.dirname, '..')

/** What hunters read. */
const COPIED = ['src', 'test', 'simulator', 'scripts', 'package.json', 'tsconfig.json', 'vitest.config.ts']

/** A defect that makes its hunter go on for ever is noticed too. */
const LONGEST_MS = 300_000

export interface Hunt {
  /** Null: nobody noticed. */
  readonly caughtBy: Hunter | null
  readonly seconds: number
}

interface Run {
  readonly passed: boolean
  readonly output: string
}

const linkPackages = async (folder: string): Promise<void> => {
  // One by one, because tools keep notes in node_modules that belong to the copy.
  const packages = join(ROOT, 'node_modules')
  await mkdir(join(folder, 'node_modules'))
  for (const name of await readdir(packages)) {
    if (name.startsWith('.') && name !== '.bin') continue
    await symlink(join(packages, name), join(folder, 'node_modules', name))
  }
}

export class Workshop {
  readonly #folder: string
  readonly #env: NodeJS.ProcessEnv
  #end: () => void = () => undefined

  private constructor(folder: string, env: NodeJS.ProcessEnv) {
    this.#folder = folder
    this.#env = env
  }

  static async open(env: NodeJS.ProcessEnv): Promise<Workshop> {
    const folder = await mkdtemp(join(tmpdir(), 'posthaste-mutants-'))
    const filter = (source: string): boolean => !/\/(node_modules|dist)$/.test(source)
    for (const name of COPIED) await cp(join(ROOT, name), join(folder, name), { recursive: true, filter })
    await linkPackages(folder)
    const workshop = new Workshop(folder, env)
    process.once('exit', workshop.close)
    return workshop
  }

  /** Ends what runs in it. At once, because it is also called when the process ends. */
  readonly close = (): void => {
    this.#end()
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 })
  }

  /** Plants the defect, lets its hunters look for it one after another, and takes it out again. */
  async hunt(mutant: Mutant): Promise<Hunt> {
    const startedAt = performance.now()
    const path = join(this.#folder, mutant.file)
    const healthy = await readFile(path, 'utf8')
    await writeFile(path, mutate(healthy, mutant))
    let caughtBy: Hunter | null = null
    try {
      for (const hunter of mutant.hunters) {
        if ((await this.run(hunter)).passed) continue
        caughtBy = hunter
        break
      }
    } finally {
      await writeFile(path, healthy)
    }
    return { caughtBy, seconds: Math.round((performance.now() - startedAt) / 100) / 10 }
  }

  /** A process of its own, and those that it starts, so that a defect can end nothing else. */
  run(hunter: Hunter): Promise<Run> {
    const child = spawn(process.execPath, commandOf(hunter), {
      cwd: this.#folder,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    })
    let output = ''
    const keep = (text: Buffer): void => {
      output = (output + text.toString()).slice(-20_000)
    }
    child.stdout.on('data', keep)
    child.stderr.on('data', keep)
    this.#end = () => {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL')
    }
    const timer = setTimeout(this.#end, LONGEST_MS)
    return new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('close', (code) => {
        clearTimeout(timer)
        this.#end = () => undefined
        resolve({ passed: code === 0, output })
      })
    })
  }
}
