/** Settings that are read again while a worker runs: taken over whole or not at all, and never the end of it. */
import { describe, expect, it } from 'vitest'
import { createFolder, type Folder, SHOP } from './cli.ts'

const settle = (folder: Folder, more: object, stock: object = {}): void =>
  folder.write(
    'settings.json',
    JSON.stringify({
      outboxes: { shop: { module: './shop.mjs' }, stock: { module: './stock.mjs', ...stock } },
      ...more,
    }),
  )

const twoOutboxes = (): Folder => {
  const folder = createFolder()
  folder.write('shop.mjs', SHOP)
  folder.write('stock.mjs', SHOP.replace('shop.db', 'stock.db'))
  settle(folder, {})
  return folder
}

const startWorker = async (folder: Folder) => {
  const running = folder.start(['worker', '--config', 'settings.json', '--health-port', '0'])
  const port = /(\d+)$/.exec(await running.line(/health on port \d+/))?.[1]
  const processors = async (): Promise<readonly string[]> => {
    const { outboxes } = (await (await fetch(`http://127.0.0.1:${port}/ready`)).json()) as {
      readonly outboxes: readonly { readonly processors: readonly string[] }[]
    }
    return outboxes.flatMap((outbox) => outbox.processors)
  }
  return { ...running, processors }
}

describe('settings that are read again', () => {
  it('are not taken over by one outbox when they are wrong for another', async () => {
    const folder = twoOutboxes()
    const { line, processors } = await startWorker(folder)
    const before = await processors()
    expect(before).toHaveLength(4)
    settle(folder, { outbox: { serve: ['audit'] } }, { concurrency: 0 })
    await line(/was not taken over/)
    await line(/delivers again/)
    expect(await processors()).toEqual(before)
  })

  it('are refused when they turn the outbox off, as at the start', async () => {
    const folder = twoOutboxes()
    const { line } = await startWorker(folder)
    settle(folder, { enableOutbox: false })
    expect(await line(/was not taken over/)).toContain('the outbox is turned off')
  })

  it('do not end a worker that cannot start again at once', async () => {
    const folder = twoOutboxes()
    folder.write(
      'stock.mjs',
      `${SHOP.replace('shop.db', 'stock.db').replace('export const', 'const')}
let starts = 0
const start = outbox.start
outbox.start = async () => {
  starts += 1
  if (starts === 2) throw new Error('the database is away')
  return await start.call(outbox)
}
export { outbox }`,
    )
    const { child, ended, line } = await startWorker(folder)
    child.kill('SIGHUP')
    expect(await line(/could not start again/)).toContain('the database is away')
    await line(/delivers again/)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })

  it('do not leave the outboxes of before open, where a function makes new ones', async () => {
    const folder = createFolder()
    folder.write('shop.mjs', SHOP)
    folder.write(
      'posthaste.config.mjs',
      `import { createOutbox } from 'posthaste'
import { sqliteStore } from 'posthaste/sqlite'
let made = 0
const make = () => {
  made += 1
  const number = made
  const outbox = createOutbox({ store: sqliteStore({ file: 'shop.db' }) })
  outbox.on('*', () => {})
  const close = outbox.close
  outbox.close = async () => { console.log('closed ' + number); await close.call(outbox) }
  return outbox
}
export default { outboxes: { shop: make } }`,
    )
    const { child, ended, line } = folder.start(['worker'])
    await line(/"the worker delivers"/)
    child.kill('SIGHUP')
    await line(/delivers again/)
    await line(/^closed 1/)
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  })
})
