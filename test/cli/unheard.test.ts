/** A destination of listeners, in a configuration that has none for it. */
import { describe, expect, it } from 'vitest'
import { createShop, type Shop } from './cli.ts'

const DEAF = `import { createOutbox } from 'posthaste'
import { sqliteStore } from 'posthaste/sqlite'
export const outbox = createOutbox({
  store: sqliteStore({ file: 'shop.db' }),
  destinations: { mailer: { events: ['order.*'] }, audit: { events: ['*'] } },
})
`
const AUDITED = `${DEAF}outbox.on('audit', '*', () => {})\n`
const LISTENING = `import { RetryAfter } from 'posthaste'
import { outbox } from './shop.mjs'
outbox.on('mailer', '*', () => {
  console.log('the mailer asks for time')
  throw new RetryAfter(600_000)
})
export { outbox }
`

/** Its mailer is declared, and something waits for it. */
const createDeafShop = async (): Promise<Shop & { readonly id: string }> => {
  const shop = await createShop()
  shop.write('shop.mjs', AUDITED)
  const [id = ''] = await shop.publish(1)
  return { ...shop, id }
}

const HINT = "outbox.on('mailer', …)"

describe('a destination that nobody hears here', { timeout: 240_000 }, () => {
  it('is refused where it is named, and spends no attempt', async () => {
    const shop = await createDeafShop()
    // Routes it.
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    for (const command of [['worker'], ['worker', '--once'], ['worker', '--workers', '2'], ['consume-one']]) {
      const args = [...command, '--destinations', 'audit,mailer']
      const { code, json, stderr } = await shop.run([...args, '--json'])
      expect([args, code, json.error.code]).toEqual([args, 3, 'POSTHASTE_NO_LISTENER'])
      expect(stderr).toContain(HINT)
    }
    const { json } = await shop.run(['events', 'show', shop.id, '--json'])
    const mailer = json.deliveries.find((one: { destination: string }) => one.destination === 'mailer')
    expect(mailer).toMatchObject({ status: 'pending', attempts: 0 })
  })

  it('is named by what cannot deliver to it, and nobody is told to serve it', async () => {
    const shop = await createDeafShop()
    const pass = await shop.run(['worker', '--once', '--log-level', 'silent', '--json'])
    expect(pass).toMatchObject({ code: 0, json: { done: 1, unheard: ['mailer'] } })
    const one = await shop.run(['consume-one', '--json'])
    expect(one).toMatchObject({ code: 0, json: { idle: true, unheard: ['mailer'] } })
    for (const command of [
      ['worker', '--once', '--log-level', 'silent'],
      ['consume-one'],
      ['why', shop.id],
      ['doctor'],
    ]) {
      const { stdout } = await shop.run(command)
      expect(stdout).toContain(HINT)
      expect(stdout).not.toContain('worker --destinations mailer')
    }
  })

  it('is named only if something waits for it that no live process delivers', async () => {
    const shop = await createDeafShop()
    shop.write('listening.mjs', LISTENING)
    shop.write('listening.json', JSON.stringify({ outboxes: { shop: { module: './listening.mjs' } } }))
    const worker = shop.start(['worker', '--config', 'listening.json'])
    await worker.line(/the mailer asks for time/)
    const { json } = await shop.run(['worker', '--once', '--log-level', 'silent', '--json'])
    expect(json).toMatchObject({ unheard: [] })
    worker.child.kill('SIGTERM')
    await worker.ended
    const alone = await shop.run(['worker', '--once', '--log-level', 'silent', '--json'])
    expect(alone.json).toMatchObject({ unheard: ['mailer'] })
  })

  it('is named where there is nothing else to deliver to', async () => {
    const shop = await createShop()
    shop.write('shop.mjs', DEAF)
    const { code, json } = await shop.run(['worker', '--json'])
    expect([code, json.error.code]).toEqual([3, 'POSTHASTE_NO_LISTENER'])
  })
})
