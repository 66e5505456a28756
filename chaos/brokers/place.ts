/** The broker of one run: a server of its own with nothing in it but the topic. */
import { copyFileSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { homeOfService, removeService, startService } from '../../scripts/services/index.ts'
import { type BrokerKind, loadKit } from './kit.ts'

export interface BrokerPlace {
  readonly kind: BrokerKind
  /** Among the services. */
  readonly name: string
  readonly url: string
  /** Its folder; null when it runs in a container. */
  readonly home: string | null
}

export const openBroker = async (kind: BrokerKind, label: string): Promise<BrokerPlace> => {
  const name = `${kind}@${label}`
  await removeService(name)
  try {
    const url = await startService(name)
    await (await loadKit(kind)).setUp(url)
    return { kind, name, url, home: await homeOfService(name) }
  } catch (error) {
    await removeService(name)
    throw error
  }
}

export const closeBroker = async ({ name, home }: BrokerPlace, folder: string): Promise<void> => {
  const log = home === null ? null : join(home, 'server.log')
  if (log !== null && existsSync(log)) copyFileSync(log, join(folder, 'broker.log'))
  await removeService(name)
}
