/** Somebody who has nothing but an empty folder and the package: from init to why. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { pack } from '../../scripts/examples/kitchen.ts'
import { ROOT } from '../../scripts/run.ts'
import { type Folder, folderAt } from './cli.ts'

/** The tarball, and the one library that SQLite needs on older Nodes. */
const emptyFolder = (): Folder => {
  const home = mkdtempSync(join(tmpdir(), 'posthaste-newcomer-'))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  const target = join(home, 'node_modules', 'posthaste')
  mkdirSync(target, { recursive: true })
  execFileSync('tar', ['-xzf', pack(home), '-C', target, '--strip-components=1'])
  symlinkSync(join(ROOT, 'node_modules', 'libsql'), join(home, 'node_modules', 'libsql'))
  return folderAt(home, join(target, 'dist', 'cli', 'main.mjs'))
}

const APP = `import { outbox } from './outbox/outbox.mjs'
import { orderPlaced } from './outbox/events.mjs'

await outbox.transaction(async (tx) => {
  tx.exec('CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)')
  tx.prepare('INSERT INTO orders (id) VALUES (?)').run('o-1')
  console.log(await outbox.publish(tx, orderPlaced({ orderId: 'o-1', total: 99.5 })))
})
await outbox.transaction((tx) => outbox.publish(tx, { type: 'order.placed', payload: null }))
await outbox.close()
`

it('goes from an empty folder to a delivered event, and repairs a dead one', {
  timeout: 240_000,
}, async () => {
  const folder = emptyFolder()
  const made = await folder.run(['init', '--yes', '--database', 'sqlite', '--javascript', '--json'])
  expect(made.json).toMatchObject({ ok: true, database: 'sqlite', orm: 'none', broker: 'none' })
  expect(made.json.files).toContain('posthaste.config.mjs')
  expect(await folder.run(['init', '--yes', '--javascript'])).toMatchObject({ code: 6 })
  expect(await folder.run(['migrate'])).toMatchObject({ code: 0 })

  folder.write('app.mjs', APP)
  const app = await folder.node('app.mjs')
  expect(app).toMatchObject({ code: 0, stderr: '' })
  const id = app.stdout.trim()
  const settings = ['--set', 'retry.maxAttempts=1']
  const work = await folder.run(['worker', '--once', '--json', '--log-level', 'error', ...settings])
  expect(work.stdout).toContain('mail: thank you for order o-1')
  expect(work.json).toMatchObject({ done: 1, dead: 1 })

  const status = await folder.run(['status', '--json'])
  expect(status.json.outboxes[0].destinations).toMatchObject([
    { name: 'mailer', counts: { done: 1, dead: 1 } },
  ])
  const dead = await folder.run(['dead', 'list', '--json'])
  expect(dead.json).toMatchObject({ dead: 1 })
  expect(
    (await folder.run(['dead', 'redrive', '--group', dead.json.groups[0].fingerprint, '--json'])).json,
  ).toMatchObject({ redriven: 1 })
  expect((await folder.run(['why', id])).stdout).toContain('Delivered')
  const doctor = await folder.run(['doctor', '--json'])
  expect(doctor.json.findings).toContainEqual(expect.objectContaining({ check: 'schema', level: 'ok' }))
})
