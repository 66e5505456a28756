/** What MariaDB and MySQL have in common. */
import { copyFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { dataOf, giveToAccount } from './data.ts'
import { debianUsr } from './install/debian.ts'
import { LOGIN, type Site } from './service.ts'

const SOCKET = 'server.sock'

/** A server must be told where everything is, because its package believes to lie in `/usr`. */
export const locations = (site: Site, packageName: string): string[] => {
  const usr = debianUsr(site, packageName)
  return [
    '--no-defaults',
    `--basedir=${usr}`,
    `--lc-messages-dir=${usr}/share/mysql`,
    `--character-sets-dir=${usr}/share/mysql/charsets`,
    `--plugin-dir=${usr}/lib/mysql/plugin`,
  ]
}

export const serverSettings = (site: Site): string[] => [
  `--datadir=${dataOf(site)}`,
  `--port=${site.port}`,
  '--bind-address=127.0.0.1',
  // Relative to the data: a path of a socket may not be longer than 107 bytes.
  `--socket=${SOCKET}`,
  '--pid-file=server.pid',
  '--skip-name-resolve',
  '--max-connections=300',
  '--innodb-buffer-pool-size=256M',
  '--character-set-server=utf8mb4',
  '--default-time-zone=+00:00',
  // Runs at every start, before the first client is let in.
  `--init-file=${join(site.home, 'grants.sql')}`,
  ...(site.durable ? [] : ['--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0']),
]

export const prepareStart = (site: Site): void => {
  const grants = join(site.home, 'grants.sql')
  copyFileSync(join(import.meta.dirname, 'grants.sql'), grants)
  giveToAccount(site, grants)
  // Left by a crash; whoever finds the id of a dead process in it may take it for alive.
  for (const name of [SOCKET, `${SOCKET}.lock`, 'server.pid'])
    rmSync(join(dataOf(site), name), { force: true })
}

export const mysqlUrl = (port: number): string => `mysql://${LOGIN}:${LOGIN}@127.0.0.1:${port}/${LOGIN}`
