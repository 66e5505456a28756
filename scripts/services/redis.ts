/** Redis 7, the one of Debian 12. Everything is written down before it is answered, unless speed was asked for. */
import { mkdirSync } from 'node:fs'
import { dataOf, giveToAccount } from './data.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { speaksRedis } from './probe.ts'
import type { Service } from './service.ts'

const PACKAGE = 'redis-server'

export const redis: Service = {
  name: 'redis',
  variable: 'POSTHASTE_TEST_REDIS_URL',
  preferredPort: 26_379,
  needs: [],
  source: 'debian',
  stopSignal: 'SIGTERM',
  install: async (site) => await installDebian(site, 'bookworm', PACKAGE),
  async start(site) {
    const data = dataOf(site)
    mkdirSync(data, { recursive: true })
    giveToAccount(site, data)
    return debianCommand(site, PACKAGE, 'usr/bin/redis-server', [
      ...['--bind', '127.0.0.1'],
      ...['--port', String(site.port)],
      ...['--dir', data],
      ...['--save', ''],
      ...['--appendonly', 'yes'],
      ...['--appendfsync', site.durable ? 'always' : 'no'],
    ])
  },
  ready: speaksRedis,
  url: (port) => `redis://127.0.0.1:${port}`,
}
