/** MariaDB 10.11, the one of Debian 12. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { run } from './command.ts'
import { initialise } from './data.ts'
import { debianCommand, debianUsr, installDebian } from './install/debian.ts'
import { locations, mysqlUrl, removeDeadLocks, serverSettings } from './mysql-family.ts'
import { speaksMysql } from './probe.ts'
import type { Command, Service, Site } from './service.ts'

const PACKAGE = 'mariadb-server-core'

const SYSTEM_TABLES = [
  'mysql_system_tables.sql',
  'mysql_performance_tables.sql',
  'mysql_system_tables_data.sql',
  'maria_add_gis_sp_bootstrap.sql',
  'mysql_sys_schema.sql',
]

const server = (site: Site, args: readonly string[]): Command =>
  debianCommand(site, PACKAGE, 'usr/sbin/mariadbd', [...locations(site, PACKAGE), ...args])

/** What `mariadb-install-db` does; that script would look for everything in `/usr`. */
const createData = async (site: Site, folder: string): Promise<void> => {
  const share = join(debianUsr(site, PACKAGE), 'share', 'mysql')
  const tables = SYSTEM_TABLES.map((name) => readFileSync(join(share, name), 'utf8'))
  const input = ['CREATE DATABASE mysql;', 'USE mysql;', 'SET @auth_root_socket = NULL;', ...tables].join(
    '\n',
  )
  const args = [`--datadir=${folder}`, '--bootstrap', '--max-allowed-packet=8M', '--net-buffer-length=16K']
  await run(server(site, args), { account: site.account, cwd: site.home, input })
}

export const mariadb: Service = {
  name: 'mariadb',
  variable: 'POSTHASTE_TEST_MARIADB_URL',
  preferredPort: 23_306,
  needs: [],
  source: 'debian',
  stopSignal: 'SIGTERM',
  install: async (site) => await installDebian(site, 'bookworm', PACKAGE),
  async start(site) {
    await initialise(site, async (folder) => await createData(site, folder))
    removeDeadLocks(site)
    return server(site, serverSettings(site))
  },
  ready: speaksMysql,
  url: mysqlUrl,
}
