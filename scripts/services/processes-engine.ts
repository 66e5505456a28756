/** Services as processes of this machine. */
import { join } from 'node:path'
import { serviceOf, withNeeds } from './catalogue.ts'
import { type Engine, NAMES, namesIn, type Report, type ServiceStatus } from './engine.ts'
import { findFolder } from './folder.ts'
import { withLock } from './lock.ts'
import type { Service } from './service.ts'
import { runningProcess, runsAlready, Session } from './session.ts'
import { readState, type ServiceState } from './state.ts'

const statusOf = async (service: Service, state: ServiceState | undefined): Promise<ServiceStatus> => {
  const { name, variable } = service
  const record = runningProcess(state)
  if (!state || record === null)
    return { name, state: 'stopped', pid: null, port: state?.port ?? null, variable, url: null }
  const { port } = state
  const ready = await service.ready(port)
  return {
    name,
    state: ready ? 'running' : 'starting',
    pid: record.pid,
    port,
    variable,
    url: service.url(port),
  }
}

/** `whyNot`: what keeps a service from running on this machine, and what to do about it. */
export const processesEngine = (report: Report, whyNot: (service: Service) => string | null): Engine => {
  const folder = findFolder(report)

  const locked = async (work: (session: Session) => Promise<void>): Promise<void> =>
    await withLock(
      join(folder, 'lock'),
      async () => await work(new Session(folder, report, whyNot)),
      (pid) => report(`Waiting for process ${pid}, which is busy with the services.`),
    )

  const status = async (services: readonly Service[]): Promise<ServiceStatus[]> => {
    const state = readState(folder)
    return await Promise.all(services.map(async (service) => await statusOf(service, state[service.name])))
  }

  const existing = (names: readonly string[]): Service[] =>
    (names.length > 0 ? names : namesIn(readState(folder))).map(serviceOf)

  return {
    kind: 'processes',
    install: async (name) => await new Session(folder, report, whyNot).install(serviceOf(name)),
    async up(names) {
      const services = withNeeds(names.length > 0 ? names : NAMES)
      const now = await status(services)
      // Who only asks where a server is does not wait for those who install and start others.
      if (now.every(({ state }) => state === 'running')) {
        const state = readState(folder)
        for (const service of services) {
          const found = state[service.name]
          if (found !== undefined) report(runsAlready(service, found))
        }
        return now
      }
      await locked(async (session) => await session.up(services))
      return await status(services)
    },
    async down(names, data) {
      const services = existing(names)
      await locked(async (session) => {
        // At once, but those that need others do not have to see them go.
        for (const needing of [true, false]) {
          const these = services.filter(({ needs }) => needs.length > 0 === needing)
          await Promise.all(these.map(async (service) => await session.down(service)))
        }
        if (data) for (const service of services) session.removeData(service)
      })
      return await status(services)
    },
    async kill(name) {
      const service = serviceOf(name)
      await locked(async (session) => await session.kill(service))
      return await statusOf(service, readState(folder)[name])
    },
    status: async (names) => await status(existing(names)),
  }
}
