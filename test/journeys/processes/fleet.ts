/** Real processes on one SQLite file, what they wrote into the ledger, and a look into the database. */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { TYPESCRIPT } from '../../../scripts/run.ts'
import { createBell } from '../../../src/testing/bell.ts'
import { World } from '../world.ts'
import type { FromWorker, ToWorker, WorkerOptions } from './messages.ts'

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export class Worker {
  readonly said: FromWorker[] = []
  readonly exited: Promise<Exit>
  readonly #child: ChildProcess
  readonly #bell: ReturnType<typeof createBell>

  constructor(options: WorkerOptions, bell: ReturnType<typeof createBell>) {
    this.#bell = bell
    this.#child = fork(new URL('./worker.ts', import.meta.url), [JSON.stringify(options)], {
      execArgv: [...TYPESCRIPT],
    })
    this.#child.on('message', (message) => {
      this.said.push(message as FromWorker)
      bell.ring()
    })
    this.exited = new Promise((resolve) => {
      this.#child.on('exit', (code, signal) => {
        resolve({ code, signal })
        bell.ring()
      })
    })
  }

  get pid(): number {
    return this.#child.pid as number
  }

  get isAlive(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Numbers of one kind of message. */
  numbers(kind: 'begun' | 'heard' | 'published'): number[] {
    return this.said.flatMap((message) => (message.kind === kind ? [message.n] : []))
  }

  /** Whether this outcome of this event is in the database, written by this worker. */
  settled(n: number, outcome: string): boolean {
    return this.said.some((it) => it.kind === 'settled' && it.n === n && it.outcome === outcome)
  }

  async until(condition: () => boolean): Promise<void> {
    await this.#bell.until(() => condition() || !this.isAlive)
    if (!condition()) throw new Error(`worker ${this.pid} ended too early`)
  }

  async ready(): Promise<this> {
    await this.until(() => this.said.some(({ kind }) => kind === 'ready'))
    return this
  }

  send(message: ToWorker): void {
    this.#child.send(message)
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal)
  }
}

export interface LedgerLine {
  readonly what: 'begin' | 'end'
  readonly pid: number
  readonly n: number
}

export class Fleet {
  readonly world = new World('sqlite')
  readonly bell = createBell()
  readonly #workers: Worker[] = []

  get #ledger(): string {
    return join(this.world.directory, 'ledger')
  }

  worker(options: Omit<WorkerOptions, 'file' | 'ledger'> = {}): Worker {
    const worker = new Worker({ file: this.world.file, ledger: this.#ledger, ...options }, this.bell)
    this.#workers.push(worker)
    return worker
  }

  /** What was heard by anybody, in order; complete up to the byte even for processes that were killed. */
  ledger(): LedgerLine[] {
    if (!existsSync(this.#ledger)) return []
    const lines = readFileSync(this.#ledger, 'utf8').trim().split('\n')
    return lines.map((line) => {
      const [what, pid, n] = line.split(' ')
      return { what: what as LedgerLine['what'], pid: Number(pid), n: Number(n) }
    })
  }

  /** Every number at least once, however often. */
  heard(): number[] {
    return [
      ...new Set(
        this.ledger()
          .filter(({ what }) => what === 'end')
          .map(({ n }) => n),
      ),
    ].sort((a, b) => a - b)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const worker of this.#workers) {
      if (!worker.isAlive) continue
      worker.kill('SIGKILL')
      worker.kill('SIGCONT')
      await worker.exited
    }
    await this.world[Symbol.asyncDispose]()
  }
}
