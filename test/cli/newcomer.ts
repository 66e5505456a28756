/** Somebody who has nothing but an empty folder and the package: from init to why, on any database. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { pack } from '../../scripts/examples/kitchen.ts'
import { ROOT } from '../../scripts/run.ts'
import { type Folder, folderAt } from './cli.ts'

export interface Newcomer {
  readonly database: 'sqlite' | 'postgres'
  /** Libraries that the database needs, from those that are installed here. */
  readonly packages: readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** How an application writes with the transaction that it is given. */
  readonly statements: readonly string[]
}

const emptyFolder = ({ packages, env }: Newcomer): Folder => {
  const home = mkdtempSync(join(tmpdir(), 'posthaste-newcomer-'))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  const target = join(home, 'node_modules', 'posthaste')
  mkdirSync(target, { recursive: true })
  execFileSync('tar', ['-xzf', pack(home), '-C', target, '--strip-components=1'])
  for (const name of packages) symlinkSync(join(ROOT, 'node_modules', name), join(home, 'node_modules', name))
  return folderAt(home, join(target, 'dist', 'cli', 'main.mjs'), env)
}

const appOf = ({ statements }: Newcomer): string => `import { outbox } from './outbox/outbox.mjs'
import { orderPlaced } from './outbox/events.mjs'

await outbox.transaction(async (tx) => {
  ${statements.join('\n  ')}
  console.log(await outbox.publish(tx, orderPlaced({ orderId: 'o-1', total: 99.5 })))
})
await outbox.transaction((tx) => outbox.publish(tx, { type: 'order.placed', payload: null }))
await outbox.close()
`

/** `init`, `migrate`, an application, `worker --once`, `status`, `dead list`, `dead redrive`, `why`, `doctor`. */
export const beNewcomer = async (newcomer: Newcomer): Promise<void> => {
  const { database } = newcomer
  const folder = emptyFolder(newcomer)
  const made = await folder.run(['init', '--yes', '--database', database, '--javascript', '--json'])
  expect(made.json).toMatchObject({ ok: true, database, orm: 'none', broker: 'none' })
  expect(made.json.files).toContain('posthaste.config.mjs')
  expect(await folder.run(['init', '--yes', '--javascript'])).toMatchObject({ code: 6 })
  expect(await folder.run(['migrate'])).toMatchObject({ code: 0 })

  folder.write('app.mjs', appOf(newcomer))
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
}
