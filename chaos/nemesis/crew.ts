/** The processes of a run: who is who, how they are started, and how they end. */
import { type ChildProcess, fork } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { startProxy, type Proxy as TcpProxy } from '../../test/databases/proxy.ts'
import { loadKit } from '../brokers/kit.ts'
import type {
  FromMember,
  FromReader,
  MemberTask,
  Place,
  ReaderTask,
  ToMember,
  Vitals,
} from '../crew/messages.ts'
import type { NemesisTask } from './messages.ts'

export interface Slot {
  readonly name: string
  readonly produces: boolean
  readonly serves: boolean
  /** Reaches the database through the pooler, where there is one. */
  readonly pooled: boolean
}

/** Both ways of delivering need somebody: what a process publishes and serves itself is hot. */
export const SLOTS: readonly Slot[] = [
  { name: 'worker1', produces: false, serves: true, pooled: false },
  { name: 'worker2', produces: false, serves: true, pooled: true },
  { name: 'both1', produces: true, serves: true, pooled: false },
  { name: 'both2', produces: true, serves: true, pooled: true },
  { name: 'producer1', produces: true, serves: false, pooled: false },
]

const STOP_WITHIN_MS = 20_000
const READY_WITHIN_MS = 60_000
const READ_WITHIN_MS = 60_000
const HAND = 'hand'
const READER = 'reader'

interface Running {
  readonly child: ChildProcess
  readonly exited: Promise<void>
  committed: number
  done: number
  vitals: Vitals | null
}

export class Crew {
  readonly #task: NemesisTask
  readonly #running = new Map<string, Running>()
  readonly #boots = new Map<string, number>()
  readonly proxies = new Map<string, TcpProxy>()
  /** To the broker. */
  readonly brokerProxies = new Map<string, TcpProxy>()
  #brokerUrl = ''
  #reader: ChildProcess | null = null
  #sink: ChildProcess | null = null
  #sinkPort = 0
  /** Nobody produces any more, not even who is started now. */
  #quiet = false
  /** Of processes that have ended. */
  #past = { committed: 0, done: 0 }
  readonly #crashes: string[] = []

  constructor(task: NemesisTask) {
    this.#task = task
  }

  get totals(): { readonly committed: number; readonly done: number } {
    const all = [this.#past, ...this.#running.values()]
    return {
      committed: all.reduce((sum, { committed }) => sum + committed, 0),
      done: all.reduce((sum, { done }) => sum + done, 0),
    }
  }

  /** What those who run said last about themselves, by slot. */
  get vitals(): (Vitals & { readonly slot: string; readonly pid: number })[] {
    return [...this.#running].flatMap(([slot, { child, vitals }]) =>
      vitals === null || child.pid === undefined ? [] : [{ ...vitals, slot, pid: child.pid }],
    )
  }

  /** Members that ended although nobody had asked them to. */
  get crashes(): readonly string[] {
    return this.#crashes
  }

  /** Everybody reaches a server through a proxy of his own; what is done by hand, through one that nobody breaks. */
  async openProxies(): Promise<Place> {
    const { place, server } = this.#task.arena
    if (server === null) return place
    for (const { name } of SLOTS) this.proxies.set(name, await startProxy(place.at))
    const byHand = await startProxy(place.at)
    this.proxies.set(HAND, byHand)
    this.redirect(place.at, this.#task.arena.pooler?.at ?? place.at)
    return { ...place, at: byHand.url }
  }

  /** A server that was away may come back elsewhere, because somebody took its port. */
  redirect(server: string, pooler: string): void {
    const pooled = new Set(SLOTS.filter((slot) => slot.pooled).map(({ name }) => name))
    for (const [name, proxy] of this.proxies) proxy.redirect(pooled.has(name) ? pooler : server)
  }

  /** The same for the broker; its reader too has one that nobody breaks. */
  async openBrokerProxies(): Promise<void> {
    const { broker } = this.#task
    if (broker === null) return
    this.#brokerUrl = broker.url
    const { tell } = await loadKit(broker.kind)
    const told = tell && ((data: Buffer, port: number): Buffer => tell(this.#brokerUrl)(data, port))
    for (const name of [...SLOTS.map((slot) => slot.name), READER])
      this.brokerProxies.set(name, await startProxy(broker.url, told))
  }

  redirectBroker(url: string): void {
    this.#brokerUrl = url
    for (const proxy of this.brokerProxies.values()) proxy.redirect(url)
  }

  async begin(): Promise<void> {
    await this.startSink()
    await this.#startReader()
    await Promise.all(SLOTS.map((slot) => this.start(slot)))
  }

  async startSink(): Promise<void> {
    const task = JSON.stringify({ folder: this.#task.folder, port: this.#sinkPort })
    const child = this.#fork('sink', task, {})
    this.#sink = child
    this.#sinkPort = await new Promise<number>((resolve, reject) => {
      child.once('message', ({ port }: { port: number }) => resolve(port))
      child.once('exit', (code) => reject(new Error(`the sink ended with ${code}`)))
    })
  }

  async killSink(): Promise<void> {
    const child = this.#sink as ChildProcess
    const exited = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGKILL')
    await exited
  }

  /** Resolves when it is ready. `env`: what makes its clock another one, for example. */
  async start(
    slot: Slot,
    env: Readonly<Record<string, string>> = {},
    build: string | null = null,
  ): Promise<void> {
    const { name, produces, serves } = slot
    const count = (this.#boots.get(name) ?? 0) + 1
    this.#boots.set(name, count)
    const { folder, regime, seed, arena, destinations, leaseMs, maxAttempts } = this.#task
    const task: MemberTask = {
      folder,
      regime,
      slot: name,
      boot: `${name}-${count}`,
      seed,
      place: { kind: arena.place.kind, at: this.proxies.get(name)?.url ?? arena.place.at },
      sinkPort: this.#sinkPort,
      brokerUrl: this.brokerProxies.get(name)?.url ?? null,
      destinations,
      produces: produces && !this.#quiet,
      serves,
      leaseMs,
      maxAttempts,
      build,
    }
    const child = this.#fork('member', JSON.stringify(task), env)
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
    const running: Running = { child, exited, committed: 0, done: 0, vitals: null }
    this.#running.set(name, running)
    child.on('message', (message: FromMember) => {
      if (message.kind !== 'counted') return
      running.committed = message.committed
      running.done = message.done
      running.vitals = message
    })
    child.once('exit', (code, signal) => {
      if (this.#running.get(name) !== running) return
      this.#forget(name)
      this.#crashes.push(`${task.boot} ended with ${signal ?? code}`)
    })
    const late = setTimeout(() => {
      this.#crashes.push(`${task.boot} was not ready within ${READY_WITHIN_MS} ms`)
      child.kill('SIGKILL')
    }, READY_WITHIN_MS)
    await this.#told(running, 'ready')
    clearTimeout(late)
  }

  signal(name: string, signal: NodeJS.Signals): void {
    this.#running.get(name)?.child.kill(signal)
  }

  /** Ends it as a crash would. */
  async kill(name: string): Promise<void> {
    const running = this.#forget(name)
    if (running === null) return
    running.child.kill('SIGKILL')
    await running.exited
  }

  /** Asks it to end, as a deployment would, and insists when that takes too long. */
  async stop(name: string): Promise<void> {
    const running = this.#forget(name)
    if (running === null) return
    running.child.kill('SIGTERM')
    const late = setTimeout(() => {
      this.#crashes.push(`${name} did not stop within ${STOP_WITHIN_MS} ms`)
      running.child.kill('SIGKILL')
    }, STOP_WITHIN_MS)
    await running.exited
    clearTimeout(late)
  }

  /** Sends a message and waits for the answer, or for the end of the process. */
  async ask(name: string, message: ToMember, answer: FromMember['kind']): Promise<void> {
    const running = this.#running.get(name)
    if (running === undefined) return
    const told = this.#told(running, answer)
    running.child.send(message, () => undefined)
    await told
  }

  /** One that was killed and not started again by whoever killed it. */
  async revive(): Promise<void> {
    await Promise.all(SLOTS.filter(({ name }) => !this.#running.has(name)).map((slot) => this.start(slot)))
  }

  /** Whoever waits for ever for the end of a transaction is killed, and has crashed as far as the verdict goes. */
  async stopProducing(): Promise<void> {
    this.#quiet = true
    const producing = SLOTS.filter(({ produces }) => produces)
    await Promise.all(
      producing.map(async ({ name }) => {
        const late = setTimeout(() => {
          this.#crashes.push(`${name} did not stop producing within ${STOP_WITHIN_MS} ms`)
          this.signal(name, 'SIGKILL')
        }, STOP_WITHIN_MS)
        await this.ask(name, { kind: 'stop-producing' }, 'stopped-producing')
        clearTimeout(late)
      }),
    )
    await this.revive()
  }

  async end(): Promise<void> {
    await Promise.all(SLOTS.map(({ name }) => this.stop(name)))
    await this.killSink()
    await this.#endReader()
    for (const proxy of [...this.proxies.values(), ...this.brokerProxies.values()])
      await proxy[Symbol.asyncDispose]()
  }

  /** At once, without waiting, also those that stand still. */
  killAll(): void {
    for (const { child } of this.#running.values()) child.kill('SIGKILL')
    this.#sink?.kill('SIGKILL')
    this.#reader?.kill('SIGKILL')
  }

  async #startReader(): Promise<void> {
    const { broker, folder } = this.#task
    const url = this.brokerProxies.get(READER)?.url
    if (broker === null || url === undefined) return
    const reader = this.#fork(
      'reader',
      JSON.stringify({ folder, kind: broker.kind, url } satisfies ReaderTask),
      {},
    )
    this.#reader = reader
    await new Promise<void>((resolve, reject) => {
      reader.once('message', () => resolve())
      reader.once('exit', (code) => reject(new Error(`the reader ended with ${code}`)))
    })
  }

  /** When it has read everything; what it has not read by then is lost. */
  async #endReader(): Promise<void> {
    const reader = this.#reader
    if (reader === null) return
    const exited = new Promise<void>((resolve) => reader.once('exit', () => resolve()))
    const isOver = reader.exitCode !== null || reader.signalCode !== null
    let hasReadAll = false
    reader.on('message', ({ kind }: FromReader) => {
      hasReadAll ||= kind === 'read-all'
    })
    const late = setTimeout(() => reader.kill('SIGKILL'), READ_WITHIN_MS)
    if (!isOver) {
      reader.send({ kind: 'finish' }, () => undefined)
      await exited
    }
    clearTimeout(late)
    if (!hasReadAll) this.#crashes.push('the reader ended before it had read everything')
  }

  #fork(
    name: 'sink' | 'reader' | 'member',
    task: string,
    env: Readonly<Record<string, string>>,
  ): ChildProcess {
    const output = openSync(join(this.#task.folder, 'crew.log'), 'a')
    try {
      return fork(new URL(`../crew/${name}.ts`, import.meta.url), [task], {
        execArgv: [...TYPESCRIPT],
        env: { ...process.env, ...env },
        stdio: ['ignore', output, output, 'ipc'],
      })
    } finally {
      closeSync(output)
    }
  }

  #forget(name: string): Running | null {
    const running = this.#running.get(name)
    if (running === undefined) return null
    this.#running.delete(name)
    this.#past = {
      committed: this.#past.committed + running.committed,
      done: this.#past.done + running.done,
    }
    return running
  }

  async #told({ child, exited }: Running, kind: FromMember['kind']): Promise<void> {
    const heard = new Promise<void>((resolve) => {
      child.on('message', (message: FromMember) => {
        if (message.kind === kind) resolve()
      })
    })
    await Promise.race([heard, exited])
  }
}
