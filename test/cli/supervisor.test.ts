/** The supervisor when things go wrong: crashes while it rolls, a broken file, a port that is taken, signals at the wrong time. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createShop, type Shop } from './cli.ts'

/** Takes its time to load while there is a file of this name. */
const SLOW_CONFIG = `import { appendFileSync, existsSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { outbox } from './shop.mjs'
console.log('it is read')
appendFileSync('reads', '.')
if (existsSync('slow')) await setTimeout(1_000)
export default { outboxes: { shop: outbox } }
`

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

interface Line {
  readonly message: string
  readonly pid: number
  readonly worker: number
}

const startShop = async (shop: Shop, ...args: readonly string[]) => {
  await shop.run(['migrate'])
  const running = shop.start(['worker', '--workers', '2', ...args])
  const lines: Line[] = []
  let rest = ''
  running.child.stderr?.on('data', (chunk: Buffer) => {
    const parts = (rest + chunk.toString('utf8')).split('\n')
    rest = parts.pop() ?? ''
    for (const part of parts) if (part.startsWith('{')) lines.push(JSON.parse(part) as Line)
  })
  const pidsStarted = (): readonly number[] =>
    lines.filter(({ message }) => message === 'a worker was started').map(({ pid }) => pid)
  return { ...running, pidsStarted }
}

describe('the supervisor', () => {
  it('has as many workers as it should when one crashes while it is replaced', async () => {
    const shop = await createShop()
    shop.write('posthaste.config.mjs', SLOW_CONFIG)
    const { child, ended, line, pidsStarted } = await startShop(shop)
    await line(/"all workers deliver"/)
    const [old = 0] = pidsStarted()
    shop.write('slow', '')
    child.kill('SIGHUP')
    await line(/"workers are replaced one after another"/)
    process.kill(old, 'SIGKILL')
    await line(/"all workers were replaced"/)
    // It says so only when those that were replaced have ended.
    expect(pidsStarted().filter(isAlive)).toHaveLength(2)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
    expect(pidsStarted().filter(isAlive)).toEqual([])
  })

  it('goes on with the others when the configuration broke before one crashed', async () => {
    const shop = await createShop()
    const { child, ended, line, pidsStarted } = await startShop(shop)
    await line(/"all workers deliver"/)
    const [first = 0, second = 0] = pidsStarted()
    shop.write('posthaste.config.mjs', 'export default {')
    process.kill(first, 'SIGKILL')
    expect(JSON.parse(await line(/"code":3/))).toMatchObject({
      message: 'a worker ended by itself and is started again',
    })
    expect(isAlive(second)).toBe(true)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })

  it('starts nobody when its port is taken', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as AddressInfo
    const { ended, pidsStarted } = await startShop(await createShop(), '--health-port', String(port))
    const { code, stderr } = await ended
    expect(code).toBe(3)
    expect(stderr).toContain('EADDRINUSE')
    expect(pidsStarted()).toEqual([])
  })

  it('ends well at SIGTERM before its workers are up', async () => {
    const { child, ended, line } = await startShop(await createShop())
    await line(/"a worker was started"/)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })

  it('ends well when its workers are told twice before they are up', async () => {
    const shop = await createShop()
    shop.write('posthaste.config.mjs', SLOW_CONFIG)
    shop.write('slow', '')
    const { child, ended, pidsStarted } = await startShop(shop)
    const reads = (): number => readFileSync(join(shop.path, 'reads'), 'utf8').length - 1
    // Once by the migration, once by itself, once by each of the two.
    while (reads() < 3) await new Promise(setImmediate)
    // As by a service manager, which tells every process of the group.
    for (const pid of pidsStarted()) process.kill(pid, 'SIGTERM')
    child.kill('SIGTERM')
    const { code, stderr } = await ended
    expect(stderr).not.toContain('INTERRUPTED')
    expect(code).toBe(0)
  })

  it('leaves nobody behind when it is killed before its workers are up', async () => {
    const shop = await createShop()
    shop.write('posthaste.config.mjs', SLOW_CONFIG)
    shop.write('slow', '')
    await shop.run(['migrate'])
    const { child, ended } = shop.start(['worker', '--workers', '2'])
    const reads = (): number => readFileSync(join(shop.path, 'reads'), 'utf8').length - 1
    // Once by itself, once by each of the two.
    while (reads() < 3) await new Promise(setImmediate)
    child.kill('SIGKILL')
    // Their end closes the streams that they have from it.
    const { stderr } = await ended
    expect(stderr).not.toContain('    at ')
  })

  it('is not needed for that: a single worker, too, hears SIGTERM while its configuration is read', async () => {
    const shop = await createShop()
    shop.write('posthaste.config.mjs', SLOW_CONFIG)
    shop.write('slow', '')
    const { child, ended, line } = shop.start(['worker'])
    await line(/it is read/)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })

  it('shows what listeners print', async () => {
    const shop = await createShop()
    shop.write(
      'posthaste.config.mjs',
      `import { outbox } from './shop.mjs'
outbox.on('audit', '*', () => console.log('a listener was here'))
export default { outboxes: { shop: outbox } }`,
    )
    const { child, ended, line } = await startShop(shop, '--json')
    await line(/"all workers deliver"/)
    await shop.publish(1)
    await line(/a listener was here/)
    child.kill('SIGTERM')
    expect((await ended).json).toEqual({ ok: true, workers: 2, exitCode: 0 })
  })
})
