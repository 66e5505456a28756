/** What MariaDB and MySQL have in common. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { copyFromFiles, dataOf } from './data.ts'
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
  `--init-file=${copyFromFiles(site, 'grants.sql')}`,
  ...(site.durable ? [] : ['--innodb-flush-log-at-trx-commit=0', '--sync-binlog=0']),
]

/** A server that finds the id of its dead predecessor may take it for alive. */
export const removeDeadLocks = (site: Site): void => {
  for (const name of [SOCKET, `${SOCKET}.lock`, 'server.pid'])
    rmSync(join(dataOf(site), name), { force: true })
}

export const mysqlUrl = (port: number): string => `mysql://${LOGIN}:${LOGIN}@127.0.0.1:${port}/${LOGIN}`
