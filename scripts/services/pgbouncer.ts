/** PgBouncer in transaction mode, in front of the older PostgreSQL. */
import { copyFromFiles, fillIn } from './data.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { postgres } from './postgres.ts'
import { speaksPostgres } from './probe.ts'
import type { Service, Site } from './service.ts'

const PACKAGE = 'pgbouncer'

const writeSettings = (site: Site): string =>
  fillIn(site, 'pgbouncer.ini', {
    '@POSTGRES@': `host=127.0.0.1 port=${site.portOf(postgres.name)}`,
    '@ADDRESS@': '127.0.0.1',
    '@PORT@': String(site.port),
    '@USERS@': copyFromFiles(site, 'pgbouncer-users.txt'),
  })

export const pgbouncer: Service = {
  name: 'pgbouncer',
  variable: 'POSTHASTE_TEST_PGBOUNCER_URL',
  preferredPort: 26_432,
  needs: [postgres.name],
  source: 'debian',
  stopSignal: 'SIGTERM',
  install: async (site) => await installDebian(site, 'bookworm', PACKAGE),
  start: async (site) => debianCommand(site, PACKAGE, 'usr/sbin/pgbouncer', [writeSettings(site)]),
  ready: speaksPostgres,
  url: postgres.url,
}
