/** Ctrl-C and SIGTERM in a pass over what is due: what runs may end, the rest is given back, and the exit code says which it was. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createFolder, createShop, SHOP, type Shop } from './cli.ts'

/** `audit` alone, whose listener says so and then does as it is told. */
const auditThat = (does: string, drainMs: number): string =>
  `${SHOP.slice(0, SHOP.indexOf('export const')).replace(', PermanentError', '')}
export const outbox = createOutbox({
  store: sqliteStore({ file: 'shop.db' }),
  drainMs: ${drainMs},
  destinations: { audit: { events: ['*'], concurrency: 1 } },
})
outbox.on('audit', '*', async () => {
  process.stderr.write('begun\\n')
  ${does}
})
`

/** Ends when the process is asked to stop, with success. */
const UNTIL_STOPPED = `await new Promise((resolve) => {
    process.once('SIGINT', resolve)
    process.once('SIGTERM', resolve)
  })`

/** Keeps the process, and never ends. */
const FOR_EVER = 'setInterval(() => {}, 60_000); await new Promise(() => {})'

const createAudit = async (does: string, events: number, drainMs = 500): Promise<Shop> => {
  const shop = await createShop()
  shop.write('shop.mjs', auditThat(does, drainMs))
  await shop.publish(events)
  return shop
}

const stoppedAt = async (shop: Shop, signal: 'SIGINT' | 'SIGTERM', ...args: readonly string[]) => {
  const { child, ended, line } = shop.start([...args, '--json'])
  await line(/^begun$/)
  child.kill(signal)
  return await ended
}

const ONCE = ['worker', '--once', '--log-level', 'silent']

describe('a pass that is told to stop', { timeout: 120_000 }, () => {
  it('lets what runs end and leaves the rest, which the exit code says', async () => {
    const shop = await createAudit(UNTIL_STOPPED, 3)
    const { code, json } = await stoppedAt(shop, 'SIGINT', ...ONCE)
    expect({ code, json }).toMatchObject({
      code: 130,
      json: { ok: false, done: 1, error: { code: 'INTERRUPTED', exitCode: 130 } },
    })
    const { counts } = (await shop.run(['status', '--json'])).json.outboxes[0].destinations[0]
    expect(counts).toMatchObject({ done: 1, pending: 2 })
  })

  it('was not stopped short when nothing was left', async () => {
    const shop = await createAudit(UNTIL_STOPPED, 1)
    expect(await stoppedAt(shop, 'SIGTERM', ...ONCE)).toMatchObject({ code: 0, json: { ok: true, done: 1 } })
    await shop.publish(2)
    const limited = await stoppedAt(shop, 'SIGTERM', ...ONCE, '--limit', '1')
    expect(limited).toMatchObject({ code: 0, json: { ok: true, done: 1 } })
  })

  it.each([
    ['worker --once', ONCE],
    ['consume-one', ['consume-one']],
  ])('%s does not wait for a listener that never ends', async (_, args) => {
    const shop = await createAudit(FOR_EVER, 1)
    expect(await stoppedAt(shop, 'SIGTERM', ...args)).toMatchObject({
      code: 130,
      json: { ok: false, claimed: 0, error: { code: 'INTERRUPTED', exitCode: 130 } },
    })
  })
})

describe('a command whose reader leaves', { timeout: 120_000 }, () => {
  // A listener that has to do with the error of standard output, so that it hears of it as the program does.
  const UNTIL_UNREAD = `const unread = new Promise((resolve) => process.stdout.once('error', resolve))
  const talk = setInterval(() => process.stdout.write('said\\n'), 10)
  await unread
  clearInterval(talk)
  await new Promise((resolve) => setTimeout(resolve, 500))`

  it.each([
    [[], /"the worker delivers"/],
    [['--workers', '2'], /"all workers deliver"/],
  ])(
    'answers as it ends, where only the notes beside the answer are not read any more: %j',
    async (flags, started) => {
      const shop = await createAudit('', 0)
      const { child, ended, line } = shop.start(['worker', '--json', ...flags])
      await line(started)
      child.stderr?.destroy()
      await shop.publish(1)
      const { code, json } = await ended
      expect([code, json.exitCode, json.ok]).toEqual([141, 141, false])
      const { destinations, workers } = (await shop.run(['status', '--json'])).json.outboxes[0]
      expect(destinations[0].counts).toMatchObject({ done: 1 })
      expect(workers).toEqual([])
    },
  )

  it.each([
    ['worker', ['worker'], 'the worker stopped'],
    ['worker --workers 2', ['worker', '--workers', '2'], 'all workers ended'],
  ])('lets what runs end, as at a signal: %s', async (_, args, said) => {
    const shop = await createAudit(UNTIL_UNREAD, 1, 30_000)
    const { child, ended, line } = shop.start(args)
    await line(/^begun$/)
    child.stdout?.destroy()
    const { code, stderr } = await ended
    expect(code).toBe(141)
    expect(stderr).toContain(said)
    const { destinations, workers } = (await shop.run(['status', '--json'])).json.outboxes[0]
    expect(destinations[0].counts).toMatchObject({ done: 1 })
    expect(workers).toEqual([])
  })
})

describe('a worker whose reader leaves', { timeout: 120_000 }, () => {
  const TALKING = (stream: string): string =>
    `setInterval(() => process.${stream}.write('said\\n'), 10)
  await new Promise(() => {})`

  it.each([
    ['what people read', 'stdout', []],
    ['what a process of a supervisor writes', 'stdout', ['--workers', '2']],
    ['the notes beside the answer', 'stderr', ['--json']],
    ['the notes of a supervisor', 'stderr', ['--json', '--workers', '2']],
  ] as const)('says that something was left behind, because that says more: %s', async (_, stream, flags) => {
    const shop = await createAudit(TALKING(stream), 1)
    const { child, ended, line } = shop.start(['worker', ...flags])
    await line(/^begun$/)
    child[stream]?.destroy()
    expect((await ended).code).toBe(1)
  })
})

describe('a child of a supervisor that is told to stop twice', { timeout: 120_000 }, () => {
  /** Time enough to be told again. */
  const SLOWLY = `process.stderr.write(\`by \${process.pid}\\n\`)
  await new Promise((resolve) => process.once('SIGTERM', resolve))
  await new Promise((resolve) => setTimeout(resolve, 1_000))`

  it.each([
    ['by whoever ends the whole group', (_parent: number, child: number) => process.kill(child, 'SIGTERM')],
    ['while it is being replaced', (parent: number) => process.kill(parent, 'SIGHUP')],
  ])('drains all the same: %s', async (_, tell) => {
    const shop = await createAudit(SLOWLY, 1, 30_000)
    const { child, ended, line } = shop.start(['worker', '--workers', '2'])
    await line(/"all workers deliver"/)
    const pid = Number((await line(/^by \d+$/)).slice(3))
    tell(child.pid as number, pid)
    await line(new RegExp(`"the worker drains".*"pid":${pid}\\b`))
    child.kill('SIGTERM')
    expect((await ended).code).toBe(0)
    const { destinations, workers } = (await shop.run(['status', '--json'])).json.outboxes[0]
    expect(destinations[0].counts).toMatchObject({ done: 1 })
    expect(workers).toEqual([])
  })
})

describe('an answer for programs', { timeout: 120_000 }, () => {
  it('is there when the command itself does not listen to signals', async () => {
    const shop = await createShop()
    shop.write('posthaste.config.mjs', `console.error('begun')\n${FOR_EVER}`)
    expect(await stoppedAt(shop, 'SIGINT', 'status')).toMatchObject({
      code: 130,
      json: { ok: false, error: { code: 'INTERRUPTED', exitCode: 130 } },
    })
  })

  it('says that the demo was stopped', async () => {
    const folder = createFolder()
    const { child, ended } = folder.start(['demo', '--events', '200000', '--dir', 'kept', '--json'])
    const begun = join(folder.path, 'kept', 'calls.ndjson')
    while (!existsSync(begun)) await new Promise((resolve) => setImmediate(resolve))
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({
      code: 130,
      json: { ok: false, error: { code: 'INTERRUPTED', exitCode: 130 } },
    })
  })
})
