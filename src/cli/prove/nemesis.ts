/** Starts the children of a proof, and breaks them: only them, by their process ids, and their own connections. */
import { type ChildProcess, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Store } from '../../core/spi/index.ts'
import { inTransaction, type Place } from '../disposable.ts'
import { wait } from '../wait.ts'
import type { FaultLine } from './faults.ts'
import { chance, type FromMember, LEASE_MS, type Task } from './messages.ts'

/** Beside this program in the package. */
const PROGRAM = fileURLToPath(new URL('./prove-member.mjs', import.meta.url))
export const hasMember = (): boolean => existsSync(PROGRAM)

const WORKERS = ['worker1', 'worker2', 'worker3']
const PRODUCERS = ['producer1', 'producer2']
const READY_MS = 30_000
const END_MS = 15_000

export type SharedTask = Omit<Task, 'role' | 'slot' | 'boot' | 'seed'>

export class MemberFailed extends Error {}

export class Crew {
  readonly #task: SharedTask
  readonly #seed: number
  readonly #children = new Map<string, ChildProcess>()
  readonly #expected = new WeakSet<ChildProcess>()
  /** Children that ended although nobody had asked them to. */
  readonly crashes: string[] = []
  #boots = 0

  constructor(task: SharedTask, seed: number) {
    this.#task = task
    this.#seed = seed
  }

  get workers(): readonly string[] {
    return WORKERS
  }

  get producers(): readonly string[] {
    return PRODUCERS
  }

  async start(slot: string): Promise<void> {
    this.#boots += 1
    const boot = `${slot}-${this.#boots}`
    const child = fork(PROGRAM, [], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] })
    this.#children.set(slot, child)
    child.on('exit', (code, signal) => {
      if (!this.#expected.has(child)) this.crashes.push(`${boot} ended with ${signal ?? code}`)
    })
    const role = PRODUCERS.includes(slot) ? 'producer' : 'worker'
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new MemberFailed(`${boot} did not come up`)), READY_MS)
      child.once('message', (message: FromMember) => {
        clearTimeout(timer)
        if (message.kind === 'ready') resolve()
        else {
          this.#expected.add(child)
          reject(new MemberFailed(message.reason))
        }
      })
      child.once('exit', () => {
        clearTimeout(timer)
        // Killed on purpose before it was ready, perhaps.
        resolve()
      })
      child.send(
        { ...this.#task, role, slot, boot, seed: this.#seed + this.#boots } satisfies Task,
        () => undefined,
      )
    })
  }

  signal(slot: string, signal: NodeJS.Signals): void {
    this.#children.get(slot)?.kill(signal)
  }

  /** kill -9, and the next one. */
  async replace(slot: string): Promise<void> {
    const child = this.#children.get(slot)
    if (child !== undefined) {
      this.#expected.add(child)
      child.kill('SIGKILL')
    }
    await this.start(slot)
  }

  async end(slots: readonly string[], signal: NodeJS.Signals): Promise<void> {
    await Promise.all(
      slots.map(async (slot) => {
        const child = this.#children.get(slot)
        if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
        this.#expected.add(child)
        const ended = new Promise((resolve) => child.once('exit', resolve))
        // One that stands still hears nothing.
        child.kill('SIGCONT')
        child.kill(signal)
        const timer = setTimeout(() => child.kill('SIGKILL'), END_MS)
        await ended
        clearTimeout(timer)
      }),
    )
  }

  async endAll(): Promise<void> {
    await this.end([...WORKERS, ...PRODUCERS], 'SIGKILL')
  }
}

/** By the name that the addresses of the children carry. */
const cutConnections = async (store: Store, { name }: Place): Promise<number> => {
  const rows = await inTransaction(store, (sql) =>
    sql.run(
      'SELECT pg_terminate_backend(pid) AS ended FROM pg_stat_activity WHERE application_name = $1 AND pid <> pg_backend_pid()',
      [name],
    ),
  )
  return (rows ?? []).length
}

/** The address under which the children's connections can be told from all others. */
export const namedUrl = (place: Place): Place => {
  if (place.kind !== 'postgres') return place
  if (!URL.canParse(place.url)) return place
  const url = new URL(place.url)
  url.searchParams.set('application_name', place.name)
  return { ...place, url: url.href }
}

export class Nemesis {
  readonly faults: FaultLine[] = []
  readonly #crew: Crew
  readonly #store: Store
  readonly #place: Place
  readonly #random: () => number

  constructor(crew: Crew, store: Store, place: Place, seed: number) {
    this.#crew = crew
    this.#store = store
    this.#place = place
    this.#random = chance(seed)
  }

  /** One fault after another until it is over. */
  async run(isOver: () => boolean, signal: AbortSignal): Promise<void> {
    // Each once first, so that a short run has seen them all.
    const kinds = [
      'kill-worker',
      'pause-worker',
      'kill-producer',
      ...(this.#place.kind === 'postgres' ? ['cut-connections'] : []),
    ]
    if (this.#place.kind === 'sqlite') this.#refuse('cut-connections', 'a file has no connections')
    for (let turn = 0; !signal.aborted && (turn < kinds.length || !isOver()); turn += 1) {
      const kind = kinds[turn] ?? (kinds[Math.floor(this.#random() * kinds.length)] as string)
      await this.#fault(turn, kind, signal)
      await wait(300 + 1_200 * this.#random(), signal)
    }
  }

  #refuse(kind: string, detail: string): void {
    this.faults.push({ id: -1, at: Date.now(), kind, what: 'refused', hits: [], detail })
  }

  async #fault(id: number, kind: string, signal: AbortSignal): Promise<void> {
    const pick = (slots: readonly string[]): string =>
      slots[Math.floor(this.#random() * slots.length)] as string
    const slot = pick(kind === 'kill-producer' ? this.#crew.producers : this.#crew.workers)
    const hits = kind === 'cut-connections' ? ('all' as const) : kind === 'kill-producer' ? [] : [slot]
    const note = (what: FaultLine['what'], detail?: string): void => {
      this.faults.push({ id, at: Date.now(), kind, what, hits, ...(detail === undefined ? {} : { detail }) })
    }
    note('begin')
    try {
      if (kind === 'pause-worker') {
        this.#crew.signal(slot, 'SIGSTOP')
        await wait(LEASE_MS * (0.5 + 1.5 * this.#random()), signal)
        this.#crew.signal(slot, 'SIGCONT')
      } else if (kind === 'cut-connections') {
        if ((await cutConnections(this.#store, this.#place)) === 0) {
          note('missed')
          return
        }
      } else await this.#crew.replace(slot)
      note('end')
    } catch (error) {
      note('missed')
      if (kind !== 'cut-connections') throw error
      this.#refuse(kind, 'the role may not end its own connections')
    }
  }
}
