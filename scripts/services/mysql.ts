/** MySQL, which Debian has in its unstable release only. */
import { run } from './command.ts'
import { initialise } from './data.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { locations, mysqlUrl, removeDeadLocks, serverSettings } from './mysql-family.ts'
import { speaksMysql } from './probe.ts'
import type { Command, Service, Site } from './service.ts'

const PACKAGE = 'mysql-server-core'

const server = (site: Site, args: readonly string[]): Command =>
  debianCommand(site, PACKAGE, 'usr/sbin/mysqld', [...locations(site, PACKAGE), ...args])

export const mysql: Service = {
  name: 'mysql',
  variable: 'POSTHASTE_TEST_MYSQL_URL',
  preferredPort: 23_307,
  needs: [],
  source: 'debian',
  stopSignal: 'SIGTERM',
  install: async (site) => await installDebian(site, 'sid', PACKAGE),
  async start(site) {
    await initialise(site, async (folder) => {
      const args = [`--datadir=${folder}`, '--initialize-insecure']
      await run(server(site, args), { account: site.account, cwd: site.home })
    })
    removeDeadLocks(site)
    const more = ['--mysqlx=OFF', '--secure-file-priv=NULL', '--binlog-expire-logs-seconds=3600']
    return server(site, [...serverSettings(site), ...more])
  },
  ready: speaksMysql,
  url: mysqlUrl,
}
