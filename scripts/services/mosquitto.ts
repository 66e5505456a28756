/** Mosquitto, the one of Debian 12: MQTT 5 with messages kept on disk. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { dataOf, giveToAccount } from './data.ts'
import { debianCommand, installDebian } from './install/debian.ts'
import { speaksMqtt } from './probe.ts'
import type { Service, Site } from './service.ts'

const PACKAGE = 'mosquitto'

const writeSettings = (site: Site): string => {
  const lines = [
    `listener ${site.port} 127.0.0.1`,
    'allow_anonymous true',
    'persistence true',
    `persistence_location ${dataOf(site)}/`,
    'autosave_on_changes true',
    'autosave_interval 1',
    'max_queued_messages 0',
    // It tells whoever connects.
    'max_packet_size 2000000',
  ]
  const settings = join(site.home, 'mosquitto.conf')
  writeFileSync(settings, `${lines.join('\n')}\n`)
  giveToAccount(site, settings)
  return settings
}

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
