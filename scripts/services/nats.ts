/** NATS with JetStream, the one of Debian 12. */
import { mkdirSync } from 'node:fs'
import { copyFromFiles, dataOf, giveToAccount } from './data.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { speaksNats } from './probe.ts'
import { LOGIN, type Service } from './service.ts'

const PACKAGE = 'nats-server'

export const nats: Service = {
  name: 'nats',
  variable: 'POSTHASTE_TEST_NATS_URL',
  preferredPort: 24_222,
  needs: [],
  source: 'debian',
  stopSignal: 'SIGTERM',
  install: async (site) => await installDebian(site, 'bookworm', PACKAGE),
  async start(site) {
    const data = dataOf(site)
    mkdirSync(data, { recursive: true })
    giveToAccount(site, data)
    return debianCommand(site, PACKAGE, 'usr/sbin/nats-server', [
      ...['--addr', '127.0.0.1'],
      ...['--port', String(site.port)],
      ...['--config', copyFromFiles(site, 'nats.conf')],
      ...['--jetstream', '--store_dir', data],
    ])
  },
  ready: speaksNats,
  url: (port) => `nats://${LOGIN}:${LOGIN}@127.0.0.1:${port}`,
}
