/** PgBouncer in transaction mode, in front of the older PostgreSQL. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { giveToAccount } from './data.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { postgres } from './postgres.ts'
import { speaksPostgres } from './probe.ts'
import { LOGIN, type Service, type Site } from './service.ts'

const PACKAGE = 'pgbouncer'

const configuration = (site: Site, users: string): string =>
  [
    '[databases]',
    `* = host=127.0.0.1 port=${site.portOf(postgres.name)}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${site.port}`,
    'unix_socket_dir =',
    'pool_mode = transaction',
    'auth_type = scram-sha-256',
    `auth_file = ${users}`,
    // Roles that tests create are looked up in the database.
    `auth_user = ${LOGIN}`,
    `admin_users = ${LOGIN}`,
    'max_client_conn = 1000',
    'default_pool_size = 20',
    // Tests drop their databases, which idle connections would prevent.
    'server_idle_timeout = 5',
    'ignore_startup_parameters = extra_float_digits\n',
  ].join('\n')

export const pgbouncer: Service = {
  name: 'pgbouncer',
  variable: 'POSTHASTE_TEST_PGBOUNCER_URL',
  preferredPort: 26_432,
  needs: [postgres.name],
  source: 'debian',
  // Ends at once; SIGTERM does that only in later versions.
  stopSignal: 'SIGTERM',
  install: async (site) => await installDebian(site, 'bookworm', PACKAGE),
  async start(site) {
    const users = join(site.home, 'users.txt')
    const settings = join(site.home, 'pgbouncer.ini')
    writeFileSync(users, `"${LOGIN}" "${LOGIN}"\n`)
    writeFileSync(settings, configuration(site, users))
    for (const file of [users, settings]) giveToAccount(site, file)
    return debianCommand(site, PACKAGE, 'usr/sbin/pgbouncer', [settings])
  },
  ready: speaksPostgres,
  url: postgres.url,
}
