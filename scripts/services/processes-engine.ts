/** Services as processes of this machine. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SERVICES, serviceOf, withNeeds } from './catalogue.ts'
import { lastLines, launch, readSince, sizeOf } from './command.ts'
import { createHome } from './data.ts'
import type { Engine, Report, ServiceStatus } from './engine.ts'
import { account, findFolder } from './folder.ts'
import { withLock } from './lock.ts'
import { choosePort, isFree } from './ports.ts'
import { isAlive, killTree, recordOf, stopTree } from './processes.ts'
import { type Service, ServicesError, type Site } from './service.ts'
import { readState, type ServiceState, type State, writeState } from './state.ts'

const READY_WITHIN_MS = 120_000
const POLL_MS = 50
/** Somebody may take a port between our look and the server's. */
const PORT_ATTEMPTS = 3

const durable = (): boolean => process.env.POSTHASTE_SERVICES_FSYNC !== 'off'

const runs = (state: ServiceState | undefined): state is ServiceState & { process: object } =>
  state?.process != null && isAlive(state.process)

const untilReady = async (service: Service, port: number, alive: () => boolean): Promise<boolean> => {
  const deadline = performance.now() + READY_WITHIN_MS
  while (alive() && performance.now() < deadline) {
    if (await service.ready(port)) return true
    await sleep(POLL_MS)
  }
  return false
}

/** One command's view of the services; exists only while the lock is held. */
class Session {
  readonly #folder: string
  readonly #report: Report
  readonly #state: State

  constructor(folder: string, report: Report) {
    this.#folder = folder
    this.#report = report
    this.#state = readState(folder)
  }

  async up(services: readonly Service[]): Promise<void> {
    const started = new Map<string, Promise<void>>()
    for (const service of services) {
      // Needed services come first in the list, so theirs is there already.
      const needs = service.needs.map((name) => started.get(name))
      started.set(service.name, this.#bringUp(service, needs))
    }
    const results = await Promise.allSettled(started.values())
    const failures = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as Error] : []))
    if (failures.length > 0) throw new ServicesError(failures.map(({ message }) => message).join('\n\n'))
  }

  async #bringUp(service: Service, needs: readonly (Promise<void> | undefined)[]): Promise<void> {
    const began = performance.now()
    const { name } = service
    // Whoever waits for it hears of a failed need, too; here it must not count as unheard.
    const needed = Promise.all(needs)
    needed.catch(() => {})
    if (await this.#alreadyRuns(service)) return
    await service.install(this.#siteOf(service, 0))
    await needed.catch(() => {
      throw new ServicesError(`${name}: not started, because it needs ${service.needs.join(' and ')}.`)
    })
    const port = await this.#startOnFreePort(service)
    this.#say(name, `ready in ${Math.round(performance.now() - began)} ms: ${service.url(port)}`)
  }

  async #alreadyRuns(service: Service): Promise<boolean> {
    const state = this.#state[service.name]
    if (!runs(state)) return false
    const { port, process: record } = state
    if (!(await untilReady(service, port, () => isAlive(record)))) {
      this.#say(service.name, 'runs, but does not answer: starting it anew')
      await this.#end(service, async () => await killTree(record))
      return false
    }
    const note =
      state.durable === durable()
        ? ''
        : ` (with fsync ${state.durable ? 'on' : 'off'}; to change that, stop it first)`
    this.#say(service.name, `runs already: ${service.url(port)}${note}`)
    return true
  }

  async #startOnFreePort(service: Service): Promise<number> {
    const { name, preferredPort } = service
    for (let attempt = 1; ; attempt++) {
      const before = this.#state[name]?.port
      const port = await choosePort(preferredPort, before)
      if (before !== undefined && port !== before) await this.#endThoseThatNeed(service)
      const log = join(this.#folder, name, 'server.log')
      const logged = sizeOf(log)
      if (await this.#start(service, port, log)) return port
      // It ended; if somebody listens on its port now, that is why.
      if (attempt < PORT_ATTEMPTS && !(await isFree(port))) continue
      const lines = lastLines(readSince(log, logged)) || '(nothing)'
      throw new ServicesError(`${name} did not get ready. Its last words, in ${log}:\n${lines}`)
    }
  }

  async #start(service: Service, port: number, log: string): Promise<boolean> {
    const site = this.#siteOf(service, port)
    createHome(site)
    const command = await service.start(site)
    this.#say(service.name, `starting on port ${port}`)
    const pid = launch(command, site.home, log, site.account)
    const record = pid === null ? null : recordOf(pid)
    // Noted before it is ready, so that it is found even if we are killed now.
    this.#note(service.name, { port, process: record, durable: site.durable })
    if (record === null) return false
    if (await untilReady(service, port, () => isAlive(record))) return true
    await this.#end(service, async () => await killTree(record))
    return false
  }

  /** They know this service by its old port. */
  async #endThoseThatNeed({ name }: Service): Promise<void> {
    const others = SERVICES.filter(({ needs }) => needs.includes(name))
    await Promise.all(others.map(async (other) => await this.down(other)))
  }

  async down(service: Service): Promise<void> {
    const state = this.#state[service.name]
    if (!runs(state)) return
    const { process: record } = state
    await this.#end(service, async () => await stopTree(record, service.stopSignal))
    this.#say(service.name, 'stopped')
  }

  async kill(service: Service): Promise<void> {
    const state = this.#state[service.name]
    if (!runs(state)) throw new ServicesError(`${service.name} does not run, so it cannot be killed.`)
    const { process: record } = state
    await this.#end(service, async () => await killTree(record))
    this.#say(service.name, `killed process ${record.pid}`)
  }

  removeData({ name }: Service): void {
    rmSync(join(this.#folder, name), { recursive: true, force: true })
  }

  async #end({ name }: Service, how: () => Promise<void>): Promise<void> {
    await how()
    const state = this.#state[name]
    if (state) this.#note(name, { ...state, process: null })
  }

  #note(name: string, state: ServiceState): void {
    this.#state[name] = state
    writeState(this.#folder, this.#state)
  }

  #say(name: string, text: string): void {
    this.#report(`${name.padEnd(13)} ${text}`)
  }

  #siteOf({ name }: Service, port: number): Site {
    return {
      name,
      folder: this.#folder,
      home: join(this.#folder, name),
      port,
      account,
      durable: durable(),
      portOf: (other) => this.#state[other]?.port ?? serviceOf(other).preferredPort,
      report: (text) => this.#say(name, text),
    }
  }
}

const statusOf = async (service: Service, state: ServiceState | undefined): Promise<ServiceStatus> => {
  const { name, variable } = service
  const port = state?.port ?? null
  if (!runs(state)) return { name, state: 'stopped', pid: null, port, variable, url: null }
  const ready = await service.ready(state.port)
  const url = service.url(state.port)
  return { name, state: ready ? 'running' : 'starting', pid: state.process.pid, port, variable, url }
}

export const processesEngine = (report: Report): Engine => {
  const folder = findFolder(report)
  const locked = async (work: (session: Session) => Promise<void>): Promise<void> =>
    await withLock(
      join(folder, 'lock'),
      async () => await work(new Session(folder, report)),
      (pid) => report(`Waiting for process ${pid}, which is busy with the services.`),
    )
  const status = async (services: readonly Service[]): Promise<ServiceStatus[]> => {
    const state = readState(folder)
    return await Promise.all(services.map(async (service) => await statusOf(service, state[service.name])))
  }
  const named = (names: readonly string[]): readonly Service[] =>
    names.length > 0 ? names.map(serviceOf) : SERVICES

  return {
    kind: 'processes',
    async up(names) {
      await locked(async (session) => await session.up(withNeeds(names)))
      return await status(withNeeds(names))
    },
    async down(names, data) {
      await locked(async (session) => {
        // Those that need others first, so that they do not see them go.
        for (const service of [...named(names)].reverse()) {
          await session.down(service)
          if (data) session.removeData(service)
        }
      })
      return await status(named(names))
    },
    async kill(name) {
      const service = serviceOf(name)
      await locked(async (session) => await session.kill(service))
      return await statusOf(service, readState(folder)[name])
    },
    status: async (names) => await status(named(names)),
  }
}
