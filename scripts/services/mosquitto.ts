/** Mosquitto, the one of Debian 12: MQTT 5 with messages kept on disk. */
import { mkdirSync } from 'node:fs'
import { copyFromFiles, dataOf, fillIn, giveToAccount } from './data.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { speaksMqtt } from './probe.ts'
import type { Service, Site } from './service.ts'

const PACKAGE = 'mosquitto'

const writeSettings = (site: Site): string =>
  fillIn(site, 'mosquitto.conf', {
    '@LISTENER@': `${site.port} 127.0.0.1`,
    '@DATA@': dataOf(site),
    '@USERS@': copyFromFiles(site, 'mosquitto-users.txt'),
    '@TOPICS@': copyFromFiles(site, 'mosquitto-topics.txt'),
  })

export const mosquitto: Service = {
  name: 'mosquitto',
  variable: 'POSTHASTE_TEST_MOSQUITTO_URL',
  preferredPort: 21_883,
  needs: [],
  source: 'debian',
  stopSignal: 'SIGTERM',
  install: async (site) => await installDebian(site, 'bookworm', PACKAGE),
  async start(site) {
    mkdirSync(dataOf(site), { recursive: true })
    giveToAccount(site, dataOf(site))
    return debianCommand(site, PACKAGE, 'usr/sbin/mosquitto', ['-c', writeSettings(site)])
  },
  ready: speaksMqtt,
  url: (port) => `mqtt://127.0.0.1:${port}`,
}
