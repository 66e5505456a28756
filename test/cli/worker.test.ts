/** The worker as a process, and its supervisor: crash, roll, drain, and nothing lost. */
import { statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { findPromtool, type Promtool } from '../observability/promtool.ts'
import { createShop, SHOP, type Shop } from './cli.ts'

const messages = (
  log: string,
): readonly { readonly message: string; readonly pid: number; readonly [field: string]: unknown }[] =>
  log
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))

const mailerOf = async (shop: Shop) => {
  const { json } = await shop.run(['status', '--json'])
  return json.outboxes[0].destinations.find(({ name }: { name: string }) => name === 'mailer').counts
}

let promtool: Promtool
beforeAll(async () => {
  promtool = await findPromtool()
}, 300_000)

/** What Prometheus would scrape, after it was found well-formed and matches. */
const scraped = async (port: string | undefined, wanted: RegExp): Promise<string> => {
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`)
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const text = await answer.text()
    if (!wanted.test(text)) continue
    expect(promtool(['check', 'metrics'], text)).toEqual({ ok: true, said: '' })
    return text
  }
}

describe('a worker', { timeout: 240_000 }, () => {
  it('delivers, says how it is, and drains at SIGTERM', async () => {
    const shop = await createShop()
    const { child, ended, line } = shop.start(['worker', '--health-port', '0'])
    const port = /(\d+)$/.exec(await line(/health on port \d+/))?.[1]
    expect(await (await fetch(`http://127.0.0.1:${port}/ready`)).json()).toMatchObject({ status: 'ok' })
    expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200)
    expect((await fetch(`http://127.0.0.1:${port}/nothing`)).status).toBe(404)
    // One that is kept could be ended by the worker while a probe asks.
    expect((await fetch(`http://127.0.0.1:${port}/health`)).headers.get('connection')).toBe('close')
    await shop.publish(2)
    const text = await scraped(
      port,
      /deliveries_total\{outbox="shop",destination="audit",outcome="done"\} 2\n/,
    )
    expect(text).toContain('posthaste_lanes_owned{outbox="shop",destination="mailer"} 64\n')
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })

  it.each([[[]], [['--workers', '2']]])(
    'is not ready while it cannot renew its lease, though the database answers: %j',
    async (flags) => {
      const shop = await createShop()
      shop.write(
        'by-hand.mjs',
        `import { outbox } from './shop.mjs'
await outbox.transaction((tx) => tx.exec(process.argv[2]))
await outbox.close()
`,
      )
      const args = ['worker', ...flags, '--health-port', '0', '--set', 'laneLease=2s', '--log-level', 'warn']
      const { child, ended, line } = shop.start(args)
      const port = /(\d+)$/.exec(await line(/health on port \d+/))?.[1]
      const untilReady = async (status: number): Promise<void> => {
        while ((await fetch(`http://127.0.0.1:${port}/ready`)).status !== status);
      }
      await untilReady(200)
      await shop.node(
        'by-hand.mjs',
        "CREATE TRIGGER readonly BEFORE UPDATE ON outbox_workers BEGIN SELECT RAISE(ABORT, 'nothing is written here'); END",
      )
      await untilReady(503)
      expect((await fetch(`http://127.0.0.1:${port}/health`)).status).toBe(200)
      await shop.node('by-hand.mjs', 'DROP TRIGGER readonly')
      await untilReady(200)
      child.kill('SIGTERM')
      expect(await ended).toMatchObject({ code: 0 })
    },
  )

  it('that runs once says whose lanes it had to leave', async () => {
    const shop = await createShop()
    const { child, ended, line } = shop.start(['worker', '--health-port', '0'])
    const port = /(\d+)$/.exec(await line(/health on port \d+/))?.[1]
    await scraped(port, /posthaste_lanes_owned\{outbox="shop",destination="audit"\} 64\n/)
    child.kill('SIGKILL')
    await ended
    const nothing = await shop.run(['worker', '--once', '--log-level', 'silent', '--json'])
    expect(nothing.json).toMatchObject({ claimed: 0, elsewhere: [] })
    await shop.publish(1)
    const { json } = await shop.run(['worker', '--once', '--log-level', 'silent', '--json'])
    expect(json).toMatchObject({ claimed: 0, elsewhere: [{ lanes: 128 }] })
    const { stdout } = await shop.run(['worker', '--once', '--log-level', 'silent'])
    expect(stdout).toMatch(/^what waits in 128 lanes of \S+ is left/m)
  })

  it('that runs once says that what failed waits for a paused destination; the doctor says that it failed', async () => {
    const shop = await createShop()
    shop.write('shop.mjs', SHOP.replace('throw new PermanentError', 'throw new Error'))
    await shop.publish(1, 'ada')
    const once = ['worker', '--once', '--log-level', 'silent', '--json']
    expect((await shop.run(once)).json).toMatchObject({ retried: 1, paused: [] })
    expect((await shop.run(['doctor', '--json'])).json.findings).toContainEqual(
      expect.objectContaining({
        check: 'retries',
        level: 'warning',
        text: '1 delivery to "mailer" failed and is to be tried again',
      }),
    )
    await shop.run(['pause', 'mailer'])
    expect((await shop.run(once)).json).toMatchObject({ claimed: 0, paused: ['mailer'] })
  })

  it('shows what the outboxes measure themselves, and goes on telling other metrics', async () => {
    const shop = await createShop()
    shop.write(
      'shop.mjs',
      `import { createCountingMetrics, createOutbox } from 'posthaste'
import { prometheusMetrics } from 'posthaste/prometheus'
import { sqliteStore } from 'posthaste/sqlite'
const make = (name, metrics) => createOutbox({ store: sqliteStore({ file: name + '.db' }), metrics, pendingIntervalMs: 10 })
const counting = createCountingMetrics()
export const outboxes = {
  counted: make('counted', counting),
  billing: make('billing', prometheusMetrics({ labels: { service: 'billing' } })),
  stock: make('stock', prometheusMetrics()),
}
for (const outbox of Object.values(outboxes)) outbox.on('*', () => {})
const timer = setInterval(() => {
  if (counting.gauge('setPending', 'local') === undefined) return
  clearInterval(timer)
  console.log('the other metrics heard of it')
}, 10)`,
    )
    shop.write('posthaste.config.mjs', `import { outboxes } from './shop.mjs'\nexport default { outboxes }\n`)
    const { line } = shop.start(['worker', '--health-port', '0'])
    const port = /(\d+)$/.exec(await line(/health on port \d+/))?.[1]
    await line(/the other metrics heard of it/)
    const every = ['outbox="counted"', 'outbox="billing",service="billing"', 'outbox="stock"'].map(
      (labels) => `posthaste_pending\\{${labels},destination="local"\\} 0\\n`,
    )
    await scraped(port, new RegExp(every.join('[^]*')))
  })

  it('reads settings again when its file changes, and goes on with the old ones when they are wrong', async () => {
    const shop = await createShop()
    shop.write('settings.json', JSON.stringify({ outboxes: { shop: { module: './shop.mjs' } } }))
    const { child, ended, line } = shop.start(['worker', '--config', 'settings.json'])
    await line(/"the worker delivers"/)
    shop.write(
      'settings.json',
      JSON.stringify({ outboxes: { shop: { module: './shop.mjs' } }, outbox: { concurrency: 0 } }),
    )
    expect(await line(/was not taken over/)).toContain(
      'concurrency must be a whole number from 1 to 1000, not 0',
    )
    await line(/"the worker delivers again"/)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })

  it('follows its settings at SIGHUP, and when their file changes', async () => {
    const shop = await createShop()
    const settle = (outbox: object): void =>
      shop.write('settings.json', JSON.stringify({ outboxes: { shop: { module: './shop.mjs' } }, outbox }))
    settle({})
    const path = join(shop.path, 'settings.json')
    const { atime, mtime } = statSync(path)
    const { child, ended, line } = shop.start(['worker', '--config', 'settings.json', '--health-port', '0'])
    const port = /(\d+)$/.exec(await line(/health on port \d+/))?.[1]
    /** Resolves when the worker serves these, and no others. */
    const serves = async (...destinations: readonly string[]): Promise<void> => {
      const wanted = destinations.map((name) => `outbox-processor-shop-to-${name}`).join()
      for (;;) {
        const ready = await fetch(`http://127.0.0.1:${port}/ready`)
        const { outboxes } = (await ready.json()) as {
          readonly outboxes: readonly { processors: string[] }[]
        }
        if (ready.status === 200 && outboxes[0]?.processors.join() === wanted) return
      }
    }
    await serves('mailer', 'audit')
    settle({ serve: ['audit'] })
    // As old as before, so that only the signal can tell.
    utimesSync(path, atime, mtime)
    child.kill('SIGHUP')
    await serves('audit')
    settle({ serve: ['mailer'] })
    await serves('mailer')
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })

  it('does not start without something to serve', async () => {
    const shop = await createShop()
    shop.write('shop.mjs', SHOP.slice(0, SHOP.indexOf('outbox.on')))
    const { code, stderr } = await shop.run(['worker'])
    expect(code).toBe(3)
    expect(stderr).toContain('there is nothing to deliver to')
  })
})

describe('the supervisor', { timeout: 240_000 }, () => {
  it('restarts a killed child, rolls at SIGHUP, drains at SIGTERM, and loses nothing', async () => {
    const shop = await createShop()
    await shop.run(['migrate'])
    const { child, ended, line } = shop.start([
      'worker',
      '--workers',
      '3',
      '--health-port',
      '0',
      '--set',
      'laneLease=3s',
    ])
    const started = JSON.parse(await line(/"all workers deliver"/)) as { readonly pids: readonly number[] }
    expect(started.pids).toHaveLength(3)
    const port = /(\d+)$/.exec(await line(/health on port \d+/))?.[1]
    await shop.publish(20)

    process.kill(started.pids[1] as number, 'SIGKILL')
    const crash = JSON.parse(await line(/ended by itself and is started again/)) as {
      readonly worker: number
    }
    expect(crash).toMatchObject({ worker: 1, signal: 'SIGKILL' })
    for (;;) if ((await fetch(`http://127.0.0.1:${port}/ready`)).status === 200) break
    await shop.publish(20)
    const each = [0, 1, 2].map(
      (worker) => `_paused\\{worker="${worker}",outbox="shop",destination="mailer"\\} 0\\n`,
    )
    const text = await scraped(port, new RegExp(each.join('[^]*')))
    expect(text.match(/^posthaste_worker_(up|restarts_total)\{.*$/gm)).toEqual([
      ...[0, 1, 2].map((worker) => `posthaste_worker_up{worker="${worker}"} 1`),
      ...[0, 1, 0].map(
        (restarts, worker) => `posthaste_worker_restarts_total{worker="${worker}"} ${restarts}`,
      ),
    ])

    child.kill('SIGHUP')
    await line(/"all workers were replaced"/)
    const { children } = (await (await fetch(`http://127.0.0.1:${port}/ready`)).json()) as {
      readonly children: readonly { readonly pid: number }[]
    }
    for (const { pid } of children) expect(started.pids).not.toContain(pid)
    await shop.publish(20)
    for (;;) if ((await mailerOf(shop)).done === 60) break

    child.kill('SIGTERM')
    const { code, stderr } = await ended
    expect(code).toBe(0)
    expect(messages(stderr).at(-1)).toMatchObject({ message: 'all workers ended', codes: [0, 0, 0] })
    expect(await mailerOf(shop)).toMatchObject({ done: 60, dead: 0, pending: 0 })
  })

  it('gives up with the exit code of a configuration that cannot work', async () => {
    const shop = await createShop()
    shop.write(
      'posthaste.config.mjs',
      `import { outbox } from './shop.mjs'
export default process.send === undefined ? { outboxes: { shop: outbox } } : { outboxes: {} }`,
    )
    const { code } = await shop.run(['worker', '--workers', '2'])
    expect(code).toBe(3)
  })
})
