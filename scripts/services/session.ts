/** One command's work on services that are processes of this machine. It exists only while the lock is held, but for installing. */
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { serviceOf, splitName, withLabel } from './catalogue.ts'
import { lastLines, launch, readSince, sizeOf } from './command.ts'
import { createHome } from './data.ts'
import { durable, type Report } from './engine.ts'
import { account } from './folder.ts'
import { withLock } from './lock.ts'
import { allFree, choosePort } from './ports.ts'
import { isAlive, killTree, type ProcessRecord, recordOf, stopTree } from './processes.ts'
import { type Service, ServicesError, type Site } from './service.ts'
import { readState, type ServiceState, type State, writeState } from './state.ts'

const READY_WITHIN_MS = 120_000
const POLL_MS = 50
/** Somebody may take a port between our look and the server's. */
const PORT_ATTEMPTS = 10

export const runningProcess = (state: ServiceState | undefined): ProcessRecord | null =>
  state?.process && isAlive(state.process) ? state.process : null

const untilReady = async (service: Service, port: number, record: ProcessRecord): Promise<boolean> => {
  const deadline = performance.now() + READY_WITHIN_MS
  while (isAlive(record) && performance.now() < deadline) {
    // If it died meanwhile, somebody else's server has taken the port and answered.
    if (await service.ready(port)) return isAlive(record)
    await sleep(POLL_MS)
  }
  return false
}

/**
 * Copies of this project on one machine prefer the same ports. Who starts on one does so alone until its server is
 * ready, so that what answers there is its own.
 */
const lockOfPort = (port: number): string =>
  join(tmpdir(), `posthaste-port-${process.getuid?.() ?? 0}-${port}.lock`)

const lineAbout = (name: string, text: string): string => `${name.padEnd(15)} ${text}`

export const runsAlready = (
  { name, url }: Service,
  state: Pick<ServiceState, 'port' | 'durable'>,
): string => {
  const how = `with fsync ${state.durable ? 'on' : 'off'}; to change that, stop it first`
  const note = state.durable === durable() ? '' : ` (${how})`
  return lineAbout(name, `runs already: ${url(state.port)}${note}`)
}

export class Session {
  readonly #folder: string
  readonly #report: Report
  readonly #whyNot: (service: Service) => string | null
  readonly #state: State
  /** Ports by service, from the moment they are chosen. */
  readonly #ports: Map<string, number>

  constructor(folder: string, report: Report, whyNot: (service: Service) => string | null) {
    this.#folder = folder
    this.#report = report
    this.#whyNot = whyNot
    this.#state = readState(folder)
    this.#ports = new Map(Object.entries(this.#state).map(([name, { port }]) => [name, port]))
  }

  /** `services`: needed ones first. All are tried, even if one fails. */
  async up(services: readonly Service[]): Promise<void> {
    const started = new Map<string, Promise<void>>()
    for (const service of services) {
      const needs = Promise.all(service.needs.flatMap((name) => started.get(name) ?? []))
      // A need that fails is reported as itself; here it only must not count as unheard.
      needs.catch(() => {})
      started.set(service.name, this.#bringUp(service, needs))
    }
    const results = await Promise.allSettled(started.values())
    const failures = results.flatMap((result, index) => {
      if (result.status === 'fulfilled') return []
      if (!(result.reason instanceof ServicesError)) throw result.reason
      return [`${services[index]?.name}: ${result.reason.message}`]
    })
    if (failures.length > 0) throw new ServicesError(failures.join('\n\n'))
  }

  /** The one thing that needs no lock: programs have one of their own. */
  async install(service: Service): Promise<void> {
    const obstacle = this.#whyNot(service)
    if (obstacle !== null) throw new ServicesError(obstacle)
    await service.install(this.#siteOf(service, 0))
  }

  async down(service: Service): Promise<void> {
    const record = runningProcess(this.#state[service.name])
    if (record === null) return this.#say(service.name, 'does not run')
    await stopTree(record, service.stopSignal)
    this.#noteEnd(service.name)
    this.#say(service.name, 'stopped')
  }

  async kill({ name }: Service): Promise<void> {
    const record = runningProcess(this.#state[name])
    if (record === null) throw new ServicesError(`${name} does not run, so it cannot be killed.`)
    await killTree(record)
    this.#noteEnd(name)
    this.#say(name, `killed process ${record.pid}`)
  }

  /** Forgets everything about a service but its programs. */
  removeData({ name }: Service): void {
    rmSync(join(this.#folder, name), { recursive: true, force: true })
    delete this.#state[name]
    writeState(this.#folder, this.#state)
  }

  async #bringUp(service: Service, needs: Promise<unknown>): Promise<void> {
    const began = performance.now()
    const { name } = service
    if (await this.#alreadyRuns(service, needs)) return
    await this.install(service)
    await needs.catch(() => {
      throw new ServicesError(`not started, because it needs ${service.needs.join(' and ')}`)
    })
    const port = await this.#startOnFreePort(service)
    this.#say(name, `ready in ${Math.round(performance.now() - began)} ms: ${service.url(port)}`)
  }

  async #alreadyRuns(service: Service, needs: Promise<unknown>): Promise<boolean> {
    const { name } = service
    // A need that comes back on another port ends those that know the old one.
    if (runningProcess(this.#state[name])) await needs.catch(() => {})
    const state = this.#state[name]
    const record = runningProcess(state)
    if (!state || record === null) {
      // It ended by itself; helpers of it may still hold its ports.
      if (state?.process) await killTree(state.process)
      return false
    }
    if (!(await untilReady(service, state.port, record))) {
      this.#say(name, 'does not answer: starting it anew')
      await killTree(record)
      this.#noteEnd(name)
      return false
    }
    this.#report(runsAlready(service, state))
    return true
  }

  async #startOnFreePort(service: Service): Promise<number> {
    const { name, ports = 1 } = service
    for (let attempt = 1; ; attempt++) {
      const port = await this.#choosePort(service)
      const log = join(this.#folder, name, 'server.log')
      const logged = sizeOf(log)
      const started = await withLock(
        lockOfPort(port),
        async () => (await allFree(port, ports)) && (await this.#start(service, port, log)),
      )
      if (started) return port
      // It ended, or did not start: if somebody listens on its port now, that is why.
      if (attempt < PORT_ATTEMPTS && !(await allFree(port, ports))) continue
      const lines = lastLines(readSince(log, logged)) || '(nothing)'
      throw new ServicesError(`did not get ready. Its last words, in ${log}:\n${lines}`)
    }
  }

  async #choosePort({ name, preferredPort, ports = 1 }: Service): Promise<number> {
    const before = this.#ports.get(name)
    const others = (): Set<number> =>
      new Set([...this.#ports].flatMap(([other, port]) => (other === name ? [] : [port])))
    const choose = async (): Promise<number> =>
      await choosePort(preferredPort, before, others(), async (first) => await allFree(first, ports))
    let port = await choose()
    // Services choose at the same time, so what another chose while we looked counts too.
    while (others().has(port)) port = await choose()
    this.#ports.set(name, port)
    if (before !== undefined && before !== port) await this.#endThoseThatNeed(name)
    return port
  }

  async #endThoseThatNeed(name: string): Promise<void> {
    const running = Object.keys(this.#state).filter((other) => runningProcess(this.#state[other]))
    const affected = running.map(serviceOf).filter(({ needs }) => needs.includes(name))
    await Promise.all(affected.map(async (service) => await this.down(service)))
  }

  async #start(service: Service, port: number, log: string): Promise<boolean> {
    const { name } = service
    const site = this.#siteOf(service, port)
    createHome(site)
    const command = await service.start(site)
    this.#say(name, `starting on port ${port}`)
    const pid = launch(command, site.home, log, site.account)
    const record = pid === null ? null : recordOf(pid)
    // Noted before it is ready, so that it is found even if we are killed now.
    this.#note(name, { port, process: record, durable: site.durable })
    if (record === null) return false
    if (await untilReady(service, port, record)) return true
    await killTree(record)
    this.#noteEnd(name)
    return false
  }

  #noteEnd(name: string): void {
    const state = this.#state[name]
    if (state) this.#note(name, { ...state, process: null })
  }

  #note(name: string, state: ServiceState): void {
    this.#state[name] = state
    writeState(this.#folder, this.#state)
  }

  #say(name: string, text: string): void {
    this.#report(lineAbout(name, text))
  }

  #siteOf({ name }: Service, port: number): Site {
    const { label } = splitName(name)
    return {
      name,
      folder: this.#folder,
      home: join(this.#folder, name),
      port,
      account,
      durable: durable(),
      portOf: (kind) => this.#ports.get(withLabel(kind, label)) ?? serviceOf(kind).preferredPort,
      report: (text) => this.#say(name, text),
    }
  }
}
