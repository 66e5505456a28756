/**
 * RabbitMQ, the one of Debian 12. Its scripts and those of Erlang know where Debian puts them, so the machine of Erlang is
 * started as they would start it, without them.
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './command.ts'
import { copyFromFiles, dataOf, giveToAccount } from './data.ts'
import { debianCommand, debianUsr, installDebian } from './install/debian.ts'
import { speaksAmqp } from './probe.ts'
import { type Command, LOGIN, type Service, ServicesError, type Site } from './service.ts'

const PACKAGE = 'rabbitmq-server'

/** Ports after its own: for other nodes, and for the register in which nodes find each other. */
const NODES = 1
const REGISTER = 2

/** The one that begins so: versions are part of the names. */
const findIn = (folder: string, start: string): string => {
  const found = readdirSync(folder).find((name) => name.startsWith(start))
  if (found === undefined) throw new ServicesError(`${folder} has no ${start}*. Delete it to install anew.`)
  return join(folder, found)
}

const environmentOf = (site: Site, erlang: string, home: string): Record<string, string> => ({
  ROOTDIR: erlang,
  BINDIR: join(findIn(erlang, 'erts-'), 'bin'),
  EMU: 'beam',
  PROGNAME: 'erl',
  ERL_LIBS: join(home, 'plugins'),
  ERL_MAX_ETS_TABLES: '50000',
  ERL_MAX_PORTS: '65536',
  ERL_EPMD_PORT: String(site.port + REGISTER),
  ERL_EPMD_ADDRESS: '127.0.0.1',
  RABBITMQ_HOME: home,
  RABBITMQ_NODENAME: `${LOGIN}@localhost`,
  RABBITMQ_DIST_PORT: String(site.port + NODES),
  RABBITMQ_MNESIA_BASE: dataOf(site),
  RABBITMQ_LOG_BASE: site.home,
  RABBITMQ_CONFIG_FILE: copyFromFiles(site, 'rabbitmq.conf'),
  RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
  RABBITMQ_NODE_PORT: String(site.port),
  RABBITMQ_ENABLED_PLUGINS_FILE: join(site.home, 'enabled_plugins'),
  RABBITMQ_CONF_ENV_FILE: '/dev/null',
})

/** What `rabbitmq-server` and `erl` make of their settings, in the words of the machine of Erlang itself. */
const argumentsOf = (erlang: string, bin: string, site: Site): string[] => [
  // Its threads sleep when there is nothing to do.
  ...['-W', 'w', '-sbwt', 'none', '-sbwtdcpu', 'none', '-sbwtdio', 'none', '-Bi'],
  ...['--', '-root', erlang, '-bindir', bin, '-progname', 'erl'],
  ...['-epmd_port', String(site.port + REGISTER)],
  ...['--', '-home', site.home],
  ...['--', '-noshell', '-noinput', '-s', 'rabbit', 'boot', '-boot', join(erlang, 'bin', 'start_sasl')],
  ...['-syslog', 'logger', '[]', '-syslog', 'syslog_error_logger', 'false'],
  ...['-kernel', 'inet_dist_use_interface', '{127,0,0,1}'],
  // A queue that was just declared is still there after a kill.
  ...['-mnesia', 'dump_log_write_threshold', '1'],
]

/** The register is a child of the server, and so goes when it goes; the server would start one that stays. */
const withRegister = (register: Command, server: Command): Command => {
  const words = [register.program, ...register.args].map((word) => `'${word}'`)
  return {
    ...server,
    program: 'sh',
    args: ['-c', `${words.join(' ')} & exec "$@"`, 'sh', server.program, ...server.args],
  }
}

/** Calls a function in the running server: what its own administration has no request for. */
export const askErlang = async (
  site: Pick<Site, 'folder' | 'home' | 'port'>,
  call: string,
): Promise<string> => {
  const bin = join(findIn(join(debianUsr(site, PACKAGE), 'lib', 'erlang'), 'erts-'), 'bin')
  const cookie = readFileSync(join(site.home, '.erlang.cookie'), 'utf8')
  const args = ['-c', cookie, '-name', `${LOGIN}@localhost`, '-a', call]
  const env = { ERL_EPMD_PORT: String(site.port + REGISTER) }
  return await run({ program: join(bin, 'erl_call'), args }, { env })
}

export const rabbitmq: Service = {
  name: 'rabbitmq',
  variable: 'POSTHASTE_TEST_RABBITMQ_URL',
  preferredPort: 25_672,
  ports: 3,
  needs: [],
  source: 'debian',
  stopSignal: 'SIGTERM',
  install: async (site) => await installDebian(site, 'bookworm', PACKAGE),
  async start(site) {
    mkdirSync(dataOf(site), { recursive: true })
    giveToAccount(site, dataOf(site))
    const usr = debianUsr(site, PACKAGE)
    const erlang = join(usr, 'lib', 'erlang')
    const home = findIn(join(usr, 'lib', 'rabbitmq', 'lib'), 'rabbitmq_server-')
    const env = environmentOf(site, erlang, home)
    const bin = env.BINDIR as string
    const program = (name: string): string => join(bin, name).slice(usr.length - 'usr'.length)
    const server = debianCommand(site, PACKAGE, program('beam.smp'), argumentsOf(erlang, bin, site))
    const register = debianCommand(site, PACKAGE, program('epmd'), [
      ...['-port', String(site.port + REGISTER)],
      ...['-address', '127.0.0.1'],
    ])
    return withRegister(register, { ...server, env })
  },
  ready: speaksAmqp,
  url: (port) => `amqp://${LOGIN}:${LOGIN}@127.0.0.1:${port}`,
}
