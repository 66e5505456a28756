/** `posthaste prove` and `posthaste bench` on SQLite: with consent alone, and without a trace afterwards. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'libsql'
import { describe, expect, it } from 'vitest'
import { createFolder, type Folder } from './cli.ts'

const CONSENT = ['--url', 'sqlite:scratch.db', '--yes', '--database-is-disposable', 'scratch.db']

const WITH_LOG = `import { createOutbox } from 'posthaste'
import { filePublisher } from 'posthaste/publishers/file'
import { sqliteStore } from 'posthaste/sqlite'
const destinations = { log: { events: ['*'], to: filePublisher({ path: 'log.ndjson' }) }, mailer: { events: ['*'] } }
export default { outboxes: { shop: createOutbox({ store: sqliteStore({ file: 'shop.db' }), destinations }) } }
`

const tablesIn = ({ path }: Folder): readonly string[] => {
  const db = new Database(join(path, 'scratch.db'))
  const rows = db.prepare("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").all() as {
    name: string
  }[]
  db.close()
  return rows.map(({ name }) => name)
}

describe('a database that may be thrown away', () => {
  it.each([
    [['prove', '--url', 'sqlite:scratch.db'], 'say so: --yes --database-is-disposable scratch.db'],
    [['prove', '--url', 'sqlite:scratch.db', '--yes'], 'say so: --yes'],
    [['prove', '--url', 'sqlite:scratch.db'], 'as hard as it can and breaks what works on it, in tables'],
    [['bench', '--url', 'sqlite:scratch.db'], 'as hard as it can, in tables of its own'],
    [['bench', '--url', 'sqlite:scratch.db', '--database-is-disposable', 'scratch.db'], 'say so: --yes'],
    [
      ['bench', '--url', 'sqlite:scratch.db', '--yes', '--database-is-disposable', 'shop'],
      '"shop" is not its name',
    ],
    [['prove', ...CONSENT, '--minutes', '0'], '--minutes must be a number from 0.05 to 600, not "0"'],
    [['prove', ...CONSENT, '--events-per-second', '1'], '--events-per-second must be a whole number from 2'],
    [['bench', ...CONSENT, '--concurrency', '0'], '--concurrency must be a whole number from 1 to 200'],
  ])('refuses %j', async (args, message) => {
    const folder = createFolder()
    const { code, stderr } = await folder.run(args)
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(message) })
    expect(existsSync(join(folder.path, 'scratch.db'))).toBe(false)
  })

  it('is loaded and broken by prove, which counts what arrived and leaves nothing behind', async () => {
    const folder = createFolder()
    const { code, json, stderr } = await folder.run([
      'prove',
      ...CONSENT,
      '--minutes',
      '0.05',
      '--seed',
      '3',
      '--json',
    ])
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: expect.stringMatching(/^tables \S+ in \S+, for 3s\n$/),
    })
    expect(json).toMatchObject({
      ok: true,
      store: 'sqlite',
      destination: 'ledger',
      lost: 0,
      ghosts: 0,
      unexplained: 0,
      orderViolations: 0,
      drained: true,
      faults: { 'kill-worker': expect.any(Number) },
      refused: { 'cut-connections': 'a file has no connections' },
      recoveryMs: { max: expect.any(Number) },
    })
    expect(json.committed).toBeGreaterThan(20)
    expect(json.delivered).toBe(json.committed)
    expect(tablesIn(folder)).toEqual([])
  })

  it.each([
    ['logg', 5, 'POSTHASTE_UNKNOWN_DESTINATION', 'has no destination "logg"; there are: log, mailer'],
    ['mailer', 2, 'POSTHASTE_INVALID_OPTION', '"mailer" has none; such are: log'],
  ])('is not touched by prove when "%s" is nowhere to send to', async (name, exitCode, code, message) => {
    const folder = createFolder()
    folder.write('posthaste.config.mjs', WITH_LOG)
    const ended = await folder.run(['prove', ...CONSENT, '--destination', name, '--json'])
    expect(ended).toMatchObject({ code: exitCode, json: { ok: false, error: { code } } })
    expect(ended.stderr).toContain(message)
    expect(existsSync(join(folder.path, 'scratch.db'))).toBe(false)
  })

  it('sends to a destination of the configuration, and says what that shows', async () => {
    const folder = createFolder()
    folder.write('posthaste.config.mjs', WITH_LOG)
    const args = ['prove', ...CONSENT, '--config', 'posthaste.config.mjs', '--minutes', '0.05']
    const { code, stdout } = await folder.run([...args, '--destination', 'log'])
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringContaining('by log; what it did with them is not read back'),
    })
    const acknowledged = Number(/acknowledged +(\d+)/.exec(stdout)?.[1])
    expect(
      readFileSync(join(folder.path, 'log.ndjson'), 'utf8').trim().split('\n').length,
    ).toBeGreaterThanOrEqual(acknowledged)
    expect(existsSync(join(folder.path, 'shop.db'))).toBe(false)
    expect(tablesIn(folder)).toEqual([])
  })

  it.each(['prove', 'bench'])('has no tables of %s left after Ctrl-C', async (command) => {
    const folder = createFolder()
    const running = folder.start([command, ...CONSENT])
    await running.line(/^tables posthaste_/)
    expect(tablesIn(folder).length).toBeGreaterThan(5)
    running.child.kill('SIGINT')
    const { code, stderr } = await running.ended
    expect({ code, stderr }).toEqual({ code: 130, stderr: expect.stringContaining('the tables are removed') })
    expect(tablesIn(folder)).toEqual([])
  })

  it('is measured by bench', async () => {
    const folder = createFolder()
    const { code, json } = await folder.run(['bench', ...CONSENT, '--seconds', '1', '--json'])
    expect(code).toBe(0)
    expect(json).toMatchObject({
      ok: true,
      store: 'sqlite',
      publish: { perSecond: expect.any(Number), p50Ms: expect.any(Number) },
      drain: { drained: true },
    })
    expect(json.drain.events).toBe(json.publish.events)
    // BEGIN, event, delivery and COMMIT.
    expect(json.publish.statementsPerEvent).toBeGreaterThanOrEqual(3)
    expect(json.publish.statementsPerEvent).toBeLessThan(6)
    expect(json.hot.arrival.p99Ms).toBeGreaterThanOrEqual(json.hot.arrival.p50Ms)
    expect(tablesIn(folder)).toEqual([])
  })
})
