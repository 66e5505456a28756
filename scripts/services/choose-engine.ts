/** As processes where every service can be one, else in containers, else as processes what can be. */
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { run } from './command.ts'
import { containersEngine } from './containers-engine.ts'
import type { Engine, Report } from './engine.ts'
import { DEBIAN_KEYRING } from './install/debian.ts'
import { processesEngine } from './processes-engine.ts'
import { type Service, ServicesError } from './service.ts'

const LOADERS: Readonly<Record<string, string>> = {
  x64: '/lib64/ld-linux-x86-64.so.2',
  arm64: '/lib/ld-linux-aarch64.so.1',
}

const inPath = (program: string): boolean =>
  (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, program)))

/** What is missing to run a service as a process. */
const missingFor = (source: Service['source']): string[] => {
  const loader = LOADERS[process.arch]
  if (process.platform !== 'linux' || !loader) return ['Linux on x64 or arm64']
  if (source === 'npm') return existsSync(loader) ? [] : ['the GNU C library']
  if (source === 'maven') return ['java', 'mvn'].filter((program) => !inPath(program))
  const programs = ['apt-get', 'dpkg-deb'].filter((program) => !inPath(program))
  return existsSync(DEBIAN_KEYRING) ? programs : [...programs, DEBIAN_KEYRING]
}

const missingForContainers = async (): Promise<string | null> => {
  for (const args of [['compose', 'version'], ['info']])
    try {
      await run({ program: 'docker', args })
    } catch (error) {
      return (error as Error).message
    }
  return null
}

const WAYS: Readonly<Record<Service['source'], { readonly way: string; readonly remedy: string }>> = {
  npm: { way: 'the PostgreSQL that npm has', remedy: 'use Debian' },
  debian: { way: "Debian's package", remedy: 'use Debian' },
  maven: { way: 'what Maven has', remedy: 'install Java 17 or later and Maven' },
}

const SOURCES = Object.keys(WAYS) as readonly Service['source'][]

const whyNot = ({ source, variable }: Service): string | null => {
  const missing = missingFor(source)
  if (missing.length === 0) return null
  const { way, remedy } = WAYS[source]
  return (
    `it cannot run as a process of this machine: ${way} needs ${missing.join(' and ')}.\n` +
    `Do one of these: ${remedy}; start Docker with compose; or set ${variable} to a server of yours.`
  )
}

const mustHaveDocker = async (): Promise<void> => {
  const missing = await missingForContainers()
  if (missing !== null)
    throw new ServicesError(`POSTHASTE_SERVICES_ENGINE=containers, but Docker does not work: ${missing}`)
}

export const chooseEngine = async (report: Report): Promise<Engine> => {
  const asked = process.env.POSTHASTE_SERVICES_ENGINE
  if (asked && asked !== 'processes' && asked !== 'containers')
    throw new ServicesError(`POSTHASTE_SERVICES_ENGINE=${asked}: expected "processes" or "containers".`)
  if (asked === 'containers') await mustHaveDocker()
  const allAsProcesses = SOURCES.flatMap(missingFor).length === 0
  const containers = asked
    ? asked === 'containers'
    : !allAsProcesses && (await missingForContainers()) === null
  return containers ? containersEngine(report) : processesEngine(report, whyNot)
}
