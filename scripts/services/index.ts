/** Services for tests, from code. A server that the environment names is used as it is; others are started. */
import { join } from 'node:path'
import { SERVICES, serviceOf } from './catalogue.ts'
import { chooseEngine } from './choose-engine.ts'
import type { Engine } from './engine.ts'
import { findFolder } from './folder.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { type Artifact, installMaven, javaCommand } from './install/maven.ts'
import { type Command, ServicesError } from './service.ts'

/** Within a test nobody wants to read that its server runs already; what goes wrong is thrown. */
const report: (line: string) => void =
  process.env.VITEST_WORKER_ID === undefined ? console.error : () => undefined

const engine = async (): Promise<Engine> => await chooseEngine(report)

/** The addresses of ready servers, by name. */
export const serviceUrls = async <Name extends string>(
  names: readonly Name[],
): Promise<Record<Name, string>> => {
  const given = names.map((name) => [name, process.env[serviceOf(name).variable] || null] as const)
  const absent = given.flatMap(([name, url]) => (url === null ? [name] : []))
  const started = absent.length > 0 ? await (await engine()).up(absent) : []
  const urls = given.map(
    ([name, url]) => [name, url ?? started.find((each) => each.name === name)?.url] as const,
  )
  const gone = urls.flatMap(([name, url]) => (url ? [] : [name]))
  if (gone.length > 0) throw new ServicesError(`${gone.join(', ')}: started, and ended again at once.`)
  return Object.fromEntries(urls) as Record<Name, string>
}

/**
 * Brings the programs of those that the environment does not name, all at once, and starts nothing: for whoever will
 * need them later. What cannot be brought is for those to say who need it.
 */
export const installServices = async (): Promise<void> => {
  const { install } = await engine()
  const absent = SERVICES.filter(({ variable }) => !process.env[variable])
  await Promise.allSettled(absent.map(({ name }) => install(name)))
}

/** Stops everything that runs for this project; for machines on which nobody will use it again. */
export const stopServices = async (): Promise<void> => {
  await (await engine()).down([], false)
}

const mustBeOurs = (name: string): void => {
  const { variable } = serviceOf(name)
  if (process.env[variable])
    throw new ServicesError(`${variable} is set, so ${name} is not ours to start or to kill.`)
}

/** Starts it, also after `killService`, on the data it had; resolves with its address when it is ready. */
export const startService = async (name: string): Promise<string> => {
  mustBeOurs(name)
  return (await serviceUrls([name]))[name] as string
}

/**
 * Ends it at once, as a crash would. Other tests may use the same server: kill one with a label of your own,
 * `postgres@crash`.
 */
export const killService = async (name: string): Promise<void> => {
  mustBeOurs(name)
  await (await engine()).kill(name)
}

/** Stops it, and forgets what it stored. */
export const removeService = async (name: string): Promise<void> => {
  mustBeOurs(name)
  await (await engine()).down([name], true)
}

/** Stops it; it keeps what it stored. */
export const stopService = async (name: string): Promise<void> => {
  mustBeOurs(name)
  await (await engine()).down([name], false)
}

/** Where a server keeps its files on this machine; null when it runs in a container. */
export const homeOfService = async (name: string): Promise<string | null> => {
  const { kind } = await engine()
  return kind === 'processes' ? join(findFolder(report), name) : null
}

/** A program of a Debian package, brought when it is not there: what other people read brokers with. */
export const debianProgram = async (
  packageName: string,
  program: string,
  args: readonly string[],
): Promise<Command> => {
  const site = { folder: findFolder(report), report }
  await installDebian(site, 'bookworm', packageName)
  return debianCommand(site, packageName, program, args)
}

/** The same with libraries of Java: runs a class, or a file of source, that uses them. */
export const javaProgram = async (
  name: string,
  artifacts: readonly Artifact[],
  main: string,
  args: readonly string[],
): Promise<Command> => {
  const site = { folder: findFolder(report), report }
  await installMaven(site, name, artifacts)
  return javaCommand(site, name, ['-Xmx128m', '-XX:+UseSerialGC'], main, args)
}

/** Of a server that runs as a process of this machine; else null. */
export const pidOfService = async (name: string): Promise<number | null> => {
  mustBeOurs(name)
  const [found] = await (await engine()).status([name])
  return found?.pid ?? null
}
