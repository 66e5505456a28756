/** Services in containers, by compose.yaml. Every project folder and every label has containers of its own. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ROOT } from '../run.ts'
import { serviceOf, splitName, withNeeds } from './catalogue.ts'
import { run } from './command.ts'
import { durable, type Engine, NAMES, namesIn, type Report, type ServiceStatus } from './engine.ts'
import { findFolder, projectId } from './folder.ts'
import { withLock } from './lock.ts'
import { choosePort } from './ports.ts'
import { type Service, ServicesError } from './service.ts'
import { readState, type State, writeState } from './state.ts'

const READY_WITHIN_MS = 180_000
const POLL_MS = 100

const kindOf = ({ name }: Service): string => splitName(name).kind

/** Services of one label are one compose project. */
const byLabel = (services: readonly Service[]): Map<string | null, Service[]> => {
  const groups = new Map<string | null, Service[]>()
  for (const service of services) {
    const { label } = splitName(service.name)
    groups.set(label, [...(groups.get(label) ?? []), service])
  }
  return groups
}

/** compose.yaml takes ports from variables named like those of the addresses. */
const portVariables = (state: State, label: string | null): Record<string, string> =>
  Object.fromEntries(
    Object.entries(state).flatMap(([name, { port }]) => {
      const { kind, label: itsLabel } = splitName(name)
      if (itsLabel !== label) return []
      return [[serviceOf(kind).variable.replace(/_URL$/, '_PORT'), String(port)]]
    }),
  )

const compose = async (state: State, label: string | null, args: readonly string[]): Promise<string> => {
  const project = ['posthaste', projectId(), ...(label === null ? [] : [label])].join('-')
  const files = ['--project-name', project, '--file', join(ROOT, 'compose.yaml')]
  const env = { ...portVariables(state, label), POSTHASTE_SERVICES_FSYNC: durable() ? 'on' : 'off' }
  return await run({ program: 'docker', args: ['compose', ...files, ...args] }, { env, cwd: ROOT })
}

const runningKinds = async (state: State, label: string | null): Promise<Set<string>> =>
  new Set((await compose(state, label, ['ps', '--services', '--status', 'running'])).split(/\s+/))

const choosePorts = async (
  state: State,
  services: readonly Service[],
  running: Set<string>,
): Promise<void> => {
  for (const service of services) {
    const { name, preferredPort } = service
    if (running.has(kindOf(service)) && state[name]) continue
    const others = Object.entries(state).flatMap(([other, { port }]) => (other === name ? [] : [port]))
    const port = await choosePort(preferredPort, state[name]?.port, new Set(others))
    state[name] = { port, process: null, durable: durable() }
  }
}

const untilReady = async (service: Service, port: number): Promise<void> => {
  const deadline = performance.now() + READY_WITHIN_MS
  while (!(await service.ready(port))) {
    if (performance.now() > deadline)
      throw new ServicesError(`${service.name} runs in its container, but does not answer on port ${port}.`)
    await sleep(POLL_MS)
  }
}

export const containersEngine = (report: Report): Engine => {
  const folder = findFolder(report)

  const locked = async (work: (state: State) => Promise<void>): Promise<void> =>
    await withLock(
      join(folder, 'lock'),
      async () => {
        const state = readState(folder)
        await work(state)
        writeState(folder, state)
      },
      (pid) => report(`Waiting for process ${pid}, which is busy with the services.`),
    )

  const start = async (state: State, label: string | null, services: readonly Service[]): Promise<void> => {
    const kinds = services.map(kindOf)
    await choosePorts(state, services, await runningKinds(state, label))
    // Remembered first: containers that fail later keep these ports.
    writeState(folder, state)
    try {
      await compose(state, label, ['up', '--detach', '--wait', ...kinds])
    } catch (error) {
      const logs = await compose(state, label, ['logs', '--tail', '15', ...kinds]).catch(() => '')
      throw new ServicesError(`${(error as Error).message}\n${logs}`)
    }
    for (const service of services) await untilReady(service, state[service.name]?.port ?? 0)
  }

  const status = async (services: readonly Service[]): Promise<ServiceStatus[]> => {
    const state = readState(folder)
    const found: ServiceStatus[] = []
    for (const [label, group] of byLabel(services)) {
      const running = await runningKinds(state, label)
      for (const service of group) {
        const { name, variable } = service
        const port = state[name]?.port ?? null
        const base = { name, pid: null, port, variable }
        if (port === null || !running.has(kindOf(service)))
          found.push({ ...base, state: 'stopped', url: null })
        else {
          const ready = await service.ready(port)
          found.push({ ...base, state: ready ? 'running' : 'starting', url: service.url(port) })
        }
      }
    }
    return found
  }

  const existing = (names: readonly string[]): Service[] =>
    (names.length > 0 ? names : namesIn(readState(folder))).map(serviceOf)

  return {
    kind: 'containers',
    async install(name) {
      await compose(readState(folder), null, ['pull', '--quiet', name])
    },
    async up(names) {
      const services = withNeeds(names.length > 0 ? names : NAMES)
      const began = performance.now()
      report(`starting containers for ${services.map(({ name }) => name).join(', ')}`)
      await locked(async (state) => {
        for (const [label, group] of byLabel(services)) await start(state, label, group)
      })
      report(`ready in ${Math.round(performance.now() - began)} ms`)
      return await status(services)
    },
    async down(names, data) {
      const services = existing(names)
      await locked(async (state) => {
        for (const [label, group] of byLabel(services)) {
          // Data are in the containers' own volumes, so a stopped container keeps them.
          const how = data ? ['rm', '--stop', '--force', '--volumes'] : ['stop']
          await compose(state, label, [...how, ...group.map(kindOf)])
          if (data) for (const { name } of group) delete state[name]
        }
      })
      return await status(services)
    },
    async kill(name) {
      const service = serviceOf(name)
      await locked(async (state) => {
        await compose(state, splitName(name).label, ['kill', kindOf(service)])
      })
      const [after] = await status([service])
      if (!after) throw new Error(`No status of ${name}.`)
      return after
    },
    status: async (names) => await status(existing(names)),
  }
}
