/** A server of its own for each kind of broker: the suite ends it in the middle of things. */
import { randomBytes } from 'node:crypto'
import { killService, startService, stopService } from '../../scripts/services/index.ts'
import type { Publisher } from '../../src/core/spi/index.ts'
import type { PublisherHarness } from '../../src/testing/suites/index.ts'
import { startProxy } from '../databases/proxy.ts'

export interface TestBroker {
  readonly url: string
  /** Of what the suite asks for, all that is the same everywhere. */
  readonly hooks: Pick<PublisherHarness, 'kill' | 'start' | 'openHanging' | 'openPoisoned'>
  /** Ends it, but not before it has saved what it acknowledged. */
  stop(): Promise<void>
  close(): Promise<void>
}

const CLOSING_WORD = 'close-the-connection'
/** Several times, because what is sent may be cut in the middle of it. */
const CLOSING_DATA = JSON.stringify(Array.from({ length: 3 }, () => CLOSING_WORD))

export const newTopic = (): string => `orders_${randomBytes(6).toString('hex')}`

/**
 * `open` makes a publisher for an address of the server; `tell` changes what the server says to clients behind a proxy,
 * where it speaks of its address.
 */
export const startBroker = async (
  kind: string,
  open: (url: string) => Publisher,
  tell?: (url: string) => (data: Buffer, port: number) => Buffer,
): Promise<TestBroker> => {
  const name = `${kind}@publishers`
  const url = await startService(name)
  const proxies: AsyncDisposable[] = []
  return {
    url,
    hooks: {
      kill: () => killService(name),
      start: async () => void (await startService(name)),
      async openHanging() {
        const proxy = await startProxy(url, tell?.(url))
        proxies.push(proxy)
        return { publisher: open(proxy.url), hang: () => proxy.goSilent(), goOn: () => proxy.pass() }
      },
      // Something on the way that ends whatever carries the word; brokers that end connections themselves replace it.
      async openPoisoned() {
        const proxy = await startProxy(url, tell?.(url))
        proxies.push(proxy)
        proxy.onSent((_connection, data) => {
          if (data.includes(CLOSING_WORD)) proxy.cut()
        })
        return { publisher: open(proxy.url), poison: { data: CLOSING_DATA } }
      },
    },
    stop: () => stopService(name),
    async close() {
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]()
    },
  }
}
