/** PgBouncer in transaction mode, in front of the older PostgreSQL. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { copyFromFiles, FILES, giveToAccount } from './data.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { postgres } from './postgres.ts'
import { speaksPostgres } from './probe.ts'
import type { Service, Site } from './service.ts'

const PACKAGE = 'pgbouncer'

/** The file has marks for what differs between processes and containers (there `compose.yaml` replaces them). */
const writeSettings = (site: Site): string => {
  const marks = {
    '@POSTGRES@': `host=127.0.0.1 port=${site.portOf(postgres.name)}`,
    '@ADDRESS@': '127.0.0.1',
    '@PORT@': String(site.port),
    '@USERS@': copyFromFiles(site, 'pgbouncer-users.txt'),
  }
  let text = readFileSync(join(FILES, 'pgbouncer.ini'), 'utf8')
  for (const [mark, value] of Object.entries(marks)) text = text.replace(mark, () => value)
  const settings = join(site.home, 'pgbouncer.ini')
  writeFileSync(settings, text)
  giveToAccount(site, settings)
  return settings
}

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
