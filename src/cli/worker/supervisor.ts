/**
 * N processes under one parent. A child that ends by itself is started again, sooner or later depending on how often
 * that happens; SIGHUP replaces one after another, the new one before the old one stops; SIGTERM drains all of them.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import type { Logger } from '../../core/spi/index.ts'
import { EXIT } from '../exit-codes.ts'
import { wait } from '../wait.ts'
import { askChild, type Told } from './child-channel.ts'
import { type Answer, jsonAnswer, startHealth } from './health.ts'
import { mergedText, metricsAnswer } from './metrics.ts'

export interface SupervisorParts {
  readonly workers: number
  /** Arguments of a child. */
  readonly args: readonly string[]
  /** Besides that of this process. */
  readonly env: Readonly<Record<string, string>>
  readonly drainMs: number
  readonly healthPort: number | null
  readonly healthHost: string
  readonly logger: Logger
  readonly signal: AbortSignal
  readonly started: (healthPort: number | null) => void
}

interface Child {
  readonly index: number
  readonly process: ChildProcess
  /** Null until it delivers. */
  readyAt: number | null
  /** Nobody takes its place. */
  isLeaving: boolean
  /** Its end, once it was told to go: it is told so once. */
  dismissed: Promise<number> | null
  readonly ready: Promise<boolean>
  readonly ended: Promise<number>
}

/** A smaller young generation costs little time and saves much memory: docs/performance.md. */
const NODE_FLAGS = ['--max-semi-space-size=16']
const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 30_000
/** A child that delivered for this long was well. */
const WELL_AFTER_MS = 10_000
/** Beside the drain: for what an outbox waits of its database, and for the process to end. */
const GRACE_MS = 10_000
/** How long a new child may take until it delivers. */
const START_MS = 60_000

export class Supervisor {
  readonly #parts: SupervisorParts
  readonly #children = new Map<number, Child>()
  readonly #failures = new Map<number, number>()
  /** How often each place was filled again after its process had ended by itself. */
  readonly #restarts = new Map<number, number>()
  readonly #leaving = new Set<Child>()
  #rolling: Promise<void> = Promise.resolve()
  #hasDelivered = false
  /** The exit code of a child that says that none can go on: with a configuration that cannot work, for one. */
  #hopeless: number | null = null
  #giveUp: () => void = () => undefined

  constructor(parts: SupervisorParts) {
    this.#parts = parts
  }

  async run(): Promise<number> {
    const { workers, healthPort, healthHost, signal, logger } = this.#parts
    const over = new Promise<void>((resolve) => {
      this.#giveUp = resolve
      if (signal.aborted) resolve()
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    const pages = {
      '/health': () => jsonAnswer(true, { pid: process.pid, children: this.#view() }),
      '/ready': () => this.#readiness(),
      '/metrics': () => this.#metrics(),
    }
    // First of all: a port that is taken must not leave workers behind.
    const health = healthPort === null ? null : await startHealth(healthHost, healthPort, pages)
    for (let index = 0; index < workers; index += 1) this.#keep(this.#start(index))
    const roll = (): void => {
      if (this.#isOver()) return
      this.#rolling = this.#rolling.then(() => this.#roll())
    }
    process.on('SIGHUP', roll)
    const ready = await Promise.race([this.#allReady(), over.then(() => false)])
    if (ready) {
      logger.log('info', 'all workers deliver', { workers, pids: this.#view().map(({ pid }) => pid) })
      this.#parts.started(health?.port ?? null)
    }
    await over
    process.off('SIGHUP', roll)
    const clean = await this.#drain()
    await health?.close()
    if (this.#hopeless !== null && this.#hopeless !== EXIT.pipe) return this.#hopeless
    return clean ? (this.#hopeless ?? EXIT.ok) : EXIT.failed
  }

  #view(): { readonly index: number; readonly pid: number | undefined; readonly ready: boolean }[] {
    return [...this.#children.values()]
      .sort((a, b) => a.index - b.index)
      .map(({ index, process: { pid }, readyAt }) => ({ index, pid, ready: readyAt !== null }))
  }

  /** Asks each of them: one that has delivered may have lost its database since. */
  async #readiness(): Promise<Answer> {
    const children = await Promise.all(
      this.#view().map(async (one) => ({ ...one, ready: one.ready && (await this.#delivers(one.index)) })),
    )
    return jsonAnswer(this.#isReady() && children.every(({ ready }) => ready), { children })
  }

  async #delivers(index: number): Promise<boolean> {
    const child = this.#children.get(index)
    if (child === undefined || child.readyAt === null) return false
    if ((await askChild(child.process, 'delivers')) === true) return true
    // Another one has taken its place while it was asked.
    return this.#children.get(index) !== child && (await this.#delivers(index))
  }

  /** All processes in one text, told apart by their numbers; one that does not answer in time is left out, and down. */
  async #metrics(): Promise<Answer> {
    const answers = await Promise.all(
      Array.from({ length: this.#parts.workers }, async (_, index) => {
        const child = this.#children.get(index)
        const text =
          (child?.readyAt ?? null) === null ? null : await askChild((child as Child).process, 'metrics')
        return { text, labels: { worker: String(index) } }
      }),
    )
    const lines = [
      '# HELP posthaste_worker_up 1 when the process delivers and answered this request, by its number.',
      '# TYPE posthaste_worker_up gauge',
      ...answers.map(
        ({ text, labels }) => `posthaste_worker_up{worker="${labels.worker}"} ${Number(text !== null)}`,
      ),
      '# HELP posthaste_worker_restarts_total Processes that ended by themselves and were started again.',
      '# TYPE posthaste_worker_restarts_total counter',
      ...answers.map(
        ({ labels }, index) =>
          `posthaste_worker_restarts_total{worker="${labels.worker}"} ${this.#restarts.get(index) ?? 0}`,
      ),
    ]
    const children = answers.flatMap(({ text, labels }) => (text === null ? [] : [{ text, labels }]))
    return metricsAnswer(mergedText([{ text: lines.join('\n'), labels: {} }, ...children]))
  }

  #isOver(): boolean {
    return this.#parts.signal.aborted || this.#hopeless !== null
  }

  #isReady(): boolean {
    return !this.#isOver() && this.#view().filter(({ ready }) => ready).length === this.#parts.workers
  }

  async #allReady(): Promise<boolean> {
    while (!this.#isReady() && !this.#isOver()) {
      await Promise.all([...this.#children.values()].map((child) => Promise.race([child.ready, child.ended])))
      if (!this.#isReady()) await wait(50, this.#parts.signal)
    }
    return this.#isReady()
  }

  #start(index: number): Child {
    const script = process.argv[1] as string
    const args = [...NODE_FLAGS, ...process.execArgv, script, ...this.#parts.args]
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      env: { ...process.env, ...this.#parts.env, POSTHASTE_WORKER_INDEX: String(index) },
    })
    const ended = new Promise<number>((resolve) => {
      // Only one that has not begun yet dies of SIGTERM.
      child.once('exit', (code, signal) => resolve(code ?? (signal === 'SIGTERM' ? EXIT.ok : EXIT.failed)))
      child.once('error', () => resolve(EXIT.failed))
    })
    const ready = new Promise<boolean>((resolve) => {
      const hear: Record<Told, () => void> = {
        ready: () => {
          made.readyAt = performance.now()
          this.#hasDelivered = true
          resolve(true)
        },
        unread: () => this.#stopUnread(index),
      }
      child.on('message', (message) => {
        if (message === 'ready' || message === 'unread') hear[message]()
      })
      void ended.then(() => resolve(false))
    })
    const made: Child = {
      index,
      process: child,
      readyAt: null,
      isLeaving: false,
      dismissed: null,
      ready,
      ended,
    }
    this.#parts.logger.log('info', 'a worker was started', { worker: index, pid: child.pid })
    return made
  }

  /** From here on the place of this child is always taken. */
  #keep(child: Child): void {
    this.#children.set(child.index, child)
    void child.ended.then((code) => this.#onEnd(child, code))
  }

  /** They all write to the same place. */
  #stopUnread(index: number): void {
    if (this.#isOver()) return
    this.#hopeless = EXIT.pipe
    const text = 'whoever read the output of a worker left; all of them stop'
    this.#parts.logger.log('warn', text, { worker: index })
    this.#giveUp()
  }

  async #onEnd(child: Child, code: number): Promise<void> {
    const { logger, signal } = this.#parts
    const { index, process: ended } = child
    this.#leaving.delete(child)
    if (child.isLeaving || this.#isOver()) return
    if (code === EXIT.pipe) {
      this.#stopUnread(index)
      return
    }
    const wellMs = child.readyAt === null ? 0 : performance.now() - child.readyAt
    child.readyAt = null
    // Later on it is a file that somebody is changing: no reason to stop those that deliver.
    if (!this.#hasDelivered && (code === EXIT.config || code === EXIT.usage)) {
      this.#hopeless = code
      logger.log('error', 'a worker cannot run with this configuration; all of them stop', {
        worker: index,
        code,
      })
      this.#giveUp()
      return
    }
    const failures = wellMs >= WELL_AFTER_MS ? 1 : (this.#failures.get(index) ?? 0) + 1
    this.#failures.set(index, failures)
    this.#restarts.set(index, (this.#restarts.get(index) ?? 0) + 1)
    const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(failures - 1, 10))
    logger.log('error', 'a worker ended by itself and is started again', {
      worker: index,
      pid: ended.pid,
      code: ended.exitCode,
      signal: ended.signalCode,
      pauseMs,
    })
    await wait(pauseMs, signal)
    // A rolling restart may have filled the place meanwhile.
    if (this.#isOver() || this.#children.get(index) !== child) return
    this.#keep(this.#start(index))
  }

  /** One after another, the new one first: there are never fewer workers than asked for. */
  async #roll(): Promise<void> {
    const { logger, signal, workers } = this.#parts
    logger.log('info', 'workers are replaced one after another')
    for (let index = 0; index < workers && !this.#isOver(); index += 1) {
      const next = this.#start(index)
      // Until it delivers it is nobody's replacement; a drain meanwhile counts it in.
      next.isLeaving = true
      this.#leaving.add(next)
      void next.ended.then(() => this.#leaving.delete(next))
      const late = wait(START_MS, signal).then(() => false)
      const isReady = await Promise.race([next.ready, late])
      if (this.#isOver()) return
      if (!isReady) {
        logger.log('error', 'the new worker does not deliver; the old ones go on', { worker: index })
        await this.#dismiss(next)
        return
      }
      next.isLeaving = false
      this.#leaving.delete(next)
      // Asked only now: the one that was here may have crashed and been started again meanwhile.
      const old = this.#children.get(index)
      this.#keep(next)
      if (old !== undefined) await this.#dismiss(old)
    }
    if (!this.#isOver()) logger.log('info', 'all workers were replaced')
  }

  #dismiss(child: Child): Promise<number> {
    child.dismissed ??= this.#end(child)
    return child.dismissed
  }

  async #end(child: Child): Promise<number> {
    child.isLeaving = true
    this.#leaving.add(child)
    child.process.kill('SIGTERM')
    const bound = this.#parts.drainMs + GRACE_MS
    const timer = setTimeout(() => {
      this.#parts.logger.log('error', 'a worker did not end in time and is killed', {
        worker: child.index,
        pid: child.process.pid,
      })
      child.process.kill('SIGKILL')
    }, bound)
    const code = await child.ended
    clearTimeout(timer)
    this.#leaving.delete(child)
    return code
  }

  async #drain(): Promise<boolean> {
    const { logger } = this.#parts
    logger.log('info', 'all workers drain')
    const all = new Set([...this.#children.values(), ...this.#leaving])
    const alive = [...all].filter(
      ({ process: { exitCode, signalCode } }) => exitCode === null && signalCode === null,
    )
    const codes = await Promise.all(alive.map((child) => this.#dismiss(child)))
    logger.log('info', 'all workers ended', { codes })
    // They drain as well where nobody reads what they write any more.
    return codes.every((code) => code === EXIT.ok || code === EXIT.pipe)
  }
}
