/** Connections to MySQL and MariaDB that fall silent: nobody hears that they are gone. */
import { expect, it, onTestFinished } from 'vitest'
import { createOutbox } from '../../src/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { dropTables, newPrefix } from '../stores/mysql-harness.ts'
import { SERVERS } from '../stores/mysql-words.ts'
import { serverUrl } from '../stores/servers.ts'
import { until } from '../stores/until.ts'
import { startProxy } from './proxy.ts'

/** Longer than a busy machine takes for a statement, or for a new connection. */
const TIMEOUT_MS = 5_000

const open = (connectionString: string, prefix: string) =>
  createOutbox({
    store: mysqlStore({ connectionString, prefix, queryTimeoutMs: TIMEOUT_MS }),
    destinations: { sink: { events: ['*'] } },
    serve: [],
  })

const tick = (n: number) => ({ type: 'tick', payload: { n } })

type TcpProxy = Awaited<ReturnType<typeof startProxy>>

/** `work` with an outbox behind a proxy, and with one that reaches the same tables directly. */
const throughProxy = async (
  server: (typeof SERVERS)[number],
  work: (proxy: TcpProxy, outbox: ReturnType<typeof open>, other: ReturnType<typeof open>) => Promise<void>,
): Promise<void> => {
  const prefix = newPrefix()
  // After the proxy is closed: until then the server waits for a client that is gone.
  onTestFinished(() => dropTables(server, prefix))
  await using other = open(serverUrl(server), prefix)
  await other.schema.migrate()
  await using proxy = await startProxy(serverUrl(server))
  const outbox = open(proxy.url, prefix)
  await outbox.start()
  await work(proxy, outbox, other)
}

it.each(SERVERS)('[39] on %s a publish over one of them times out, and the next one works', (server) =>
  throughProxy(server, async (proxy, outbox, other) => {
    const running = outbox.transaction(async (tx) => {
      await outbox.publish(tx, tick(1))
      proxy.goSilent()
      proxy.pass()
      await outbox.publish(tx, tick(2))
    })
    await expect(running).rejects.toMatchObject({ code: 'POSTHASTE_STORE_UNAVAILABLE', transient: true })
    const id = await outbox.transaction((tx) => outbox.publish(tx, tick(3)))
    await outbox.close()
    // Others of its connections are silent too, so somebody else looks.
    const { deliveries } = await other.inspect.list({ limit: 10 })
    expect(deliveries.map(({ eventId }) => eventId)).toEqual([id])
  }),
)

it.each(SERVERS)('[39] on %s a close does not wait for ever for what runs over one of them', (server) =>
  throughProxy(server, async (proxy, outbox) => {
    const codeOf = (work: Promise<unknown>) => work.then(String, ({ code }) => code as string)
    const swallowed = (count: number) =>
      until(`${count} fell silent`, async () => proxy.swallowed.size >= count)
    const publishing = codeOf(
      outbox.transaction(async (tx) => {
        proxy.goSilent()
        await outbox.publish(tx, tick(1))
      }),
    )
    await swallowed(1)
    const asking = codeOf(outbox.inspect.workers())
    await swallowed(2)
    await outbox.close()
    for (const code of await Promise.all([publishing, asking]))
      expect(code).toBe('POSTHASTE_STORE_UNAVAILABLE')
  }),
)
