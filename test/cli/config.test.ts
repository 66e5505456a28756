/** Where settings come from, who wins, and what is refused before anything starts. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createFolder, createShop, type Ended, type Folder, SHOP } from './cli.ts'

const settingOf = ({ json }: Ended, key: string): unknown => {
  const [outbox] = json.outboxes
  const { value, from } = outbox.settings.find((one: { key: string }) => one.key === key)
  return [value, from]
}

const withFile = (name: string, text: string): Folder => {
  const folder = createFolder()
  folder.write('shop.mjs', SHOP)
  folder.write(name, text)
  return folder
}

const JSON_CONFIG = JSON.stringify({
  outboxes: { shop: { module: './shop.mjs' } },
  outbox: { pollInterval: '5s' },
})

describe('a configuration', () => {
  it('is code, with a processor per destination', async () => {
    const shop = await createShop()
    const ended = await shop.run(['config', '--json'])
    expect(ended.json.outboxes[0]).toMatchObject({
      name: 'shop',
      store: 'sqlite',
      database: { url: join(shop.path, 'shop.db'), from: 'code (createOutbox)' },
      processors: ['outbox-processor-shop-to-mailer', 'outbox-processor-shop-to-audit'],
    })
    expect(settingOf(ended, 'pollIntervalMs')).toEqual([1_000, 'default'])
    expect(settingOf(ended, 'retry.baseMs')).toEqual([200, 'default'])
    expect(settingOf(ended, 'maintain')).toEqual([true, 'default'])
    const wrong = await shop.run(['config', '--set', 'nosuch=1'])
    expect(wrong).toMatchObject({ code: 3, stderr: expect.stringContaining('retry.maxAttempts') })
    expect(await shop.run(['config', '--set', 'pollInterval'])).toMatchObject({ code: 2 })
    expect(await shop.run(['worker', '--once', '--destinations', 'nosuch'])).toMatchObject({ code: 5 })
  })

  it('is the TOML of the documents', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../docs/configuration.md'), 'utf8')
    const [, toml = ''] = /```toml\n(.*?)```/s.exec(page) ?? []
    const folder = withFile('posthaste.config.toml', toml.replace('./outbox.ts', './shop.mjs'))
    const { code, json } = await folder.run(['config', '--json'])
    expect([code, json.outboxes.map(({ name }: { name: string }) => name)]).toEqual([0, ['shop', 'reports']])

    // Of two databases one is there.
    const reports = 'postgres://reports:secret@127.0.0.1:1/reports'
    folder.write(
      'posthaste.config.json',
      JSON.stringify({ outboxes: { shop: { module: './shop.mjs' }, reports: { url: reports } } }),
    )
    await folder.run(['migrate', '--outbox', 'shop', '--config', 'posthaste.config.json'])
    const status = await folder.run(['status', '--json', '--config', 'posthaste.config.json'])
    expect(status.code).toBe(4)
    expect(status.json.outboxes).toMatchObject([
      { name: 'shop', store: 'sqlite' },
      { name: 'reports', destinations: [], error: { code: 'POSTHASTE_STORE_UNAVAILABLE' } },
    ])
    const watched = await folder.run([
      'status',
      '--watch',
      '--times',
      '1',
      '--config',
      'posthaste.config.json',
    ])
    expect(watched.stdout).toMatch(/shop.*reports: .*cannot be reached/s)
  })

  it('is TypeScript', async () => {
    const folder = withFile(
      'posthaste.config.ts',
      `import { defineConfig } from 'posthaste/config'
import { outbox } from './shop.mjs'
const interval: string = '2s'
export default defineConfig({ outboxes: { shop: () => outbox }, outbox: { pollInterval: interval } })`,
    )
    const ended = await folder.run(['config', '--json'])
    expect(ended.stderr).toBe('')
    expect(settingOf(ended, 'pollIntervalMs')).toEqual([2_000, 'file'])
  })

  it('is JSON, and environment and flags win over it', async () => {
    const folder = withFile('posthaste.config.json', JSON_CONFIG)
    expect(settingOf(await folder.run(['config', '--json']), 'pollIntervalMs')).toEqual([5_000, 'file'])
    const env = { POSTHASTE_POLL_INTERVAL: '7s' }
    expect(settingOf(await folder.run(['config', '--json'], { env }), 'pollIntervalMs')).toEqual([
      7_000,
      'environment',
    ])
    const flag = await folder.run(['config', '--json', '--set', 'pollIntervalMs=900'], { env })
    expect(settingOf(flag, 'pollIntervalMs')).toEqual([900, 'flag'])
  })

  it('may say in words what has no number, the same in every place', async () => {
    const folder = withFile(
      'posthaste.config.json',
      JSON.stringify({
        outboxes: { shop: { module: './shop.mjs' } },
        outbox: { retry: { jitter: 'none', maxAttempts: 'never' }, retentionDead: 'never' },
      }),
    )
    const words = async (args: readonly string[], env: Record<string, string> = {}) => {
      const ended = await folder.run(['config', '--json', ...args], { env })
      expect(ended.stderr).toBe('')
      return ['retry.jitter', 'retry.maxAttempts', 'retentionDeadHours'].map((key) => settingOf(ended, key))
    }
    const all = (from: string, jitter: string) => [
      [jitter, from],
      ['Infinity', from],
      [null, from],
    ]
    expect(await words([])).toEqual(all('file', 'none'))
    const env = {
      POSTHASTE_RETRY_JITTER: 'half',
      POSTHASTE_RETRY_MAX_ATTEMPTS: 'Infinity',
      POSTHASTE_RETENTION_DEAD: 'never',
    }
    expect(await words([], env)).toEqual(all('environment', 'half'))
    const set = ['retry.jitter=none', 'retry.maxAttempts=never', 'retentionDead=never']
    expect(
      await words(
        set.map((one) => `--set=${one}`),
        env,
      ),
    ).toEqual(all('flag', 'none'))
  })

  it('is won by the later place, also where an earlier one names the destination', async () => {
    const folder = withFile(
      'posthaste.config.json',
      JSON.stringify({
        outboxes: { shop: { module: './shop.mjs' } },
        outbox: { destinations: { mailer: { concurrency: 8 } }, concurrency: 4 },
      }),
    )
    const concurrency = async (...args: readonly string[]) => {
      const ended = await folder.run(['config', '--json', ...args])
      return ['mailer', 'audit'].map((name) => settingOf(ended, `destinations.${name}.concurrency`))
    }
    expect(await concurrency()).toEqual([
      [8, 'file'],
      [4, 'file'],
    ])
    expect(await concurrency('--set', 'concurrency=2')).toEqual([
      [2, 'flag'],
      [2, 'flag'],
    ])
    expect(await concurrency('--set', 'mailer.concurrency=3', '--set', 'concurrency=2')).toEqual([
      [3, 'flag'],
      [2, 'flag'],
    ])
  })

  it('is a TOML file of another outbox', async () => {
    const folder = withFile(
      'posthaste.config.toml',
      `[server]
default_subscription_type = "stream"
[outbox]
broker = "mailer"
messages_per_tick = 10
tick_interval = 2
[outbox.retry]
max_attempts = 5
base_delay_seconds = 60
max_backoff_seconds = 3600
backoff_multiplier = 2
jitter = true
jitter_factor = 0.25
[outbox.cleanup]
published_retention_hours = 24
abandoned_retention_hours = 168
cleanup_interval_ticks = 1800
[outboxes.default]
module = "./shop.mjs"`,
    )
    const ended = await folder.run(['config', '--json'])
    expect(ended.stderr).toBe('')
    const values = Object.fromEntries(
      ended.json.outboxes[0].settings.map(({ key, value }: { key: string; value: unknown }) => [key, value]),
    )
    expect(values).toMatchObject({
      serve: ['mailer'],
      pollBatchSize: 10,
      pollIntervalMs: 2_000,
      retentionDoneHours: 24,
      retentionDeadHours: 168,
      cleanupIntervalMs: 3_600_000,
      'retry.maxAttempts': 5,
      'retry.baseMs': 60_000,
      'retry.maxMs': 3_600_000,
      'retry.jitter': 0.25,
    })
    expect(ended.json.outboxes[0].processors).toEqual(['outbox-processor-default-to-mailer'])
  })

  it('may be an address alone, whose password is never shown', async () => {
    const env = { DATABASE_URL: 'postgres://shop:canary-secret@127.0.0.1:1/shop' }
    const shown = await createFolder().run(['config'], { env })
    expect(shown.stdout).toContain('postgres://shop:***@127.0.0.1:1/shop')
    const failed = await createFolder().run(['status', '--json'], { env })
    expect(failed.code).toBe(4)
    for (const text of [shown.stdout, shown.stderr, failed.stdout, failed.stderr])
      expect(text).not.toContain('canary')
  })

  it('means the same SQLite file from every folder', async () => {
    const folder = withFile(
      'ops/posthaste.config.json',
      '{"outboxes":{"shop":{"url":"sqlite:data/shop.db"}}}',
    )
    folder.write('ops/data/kept', '')
    const args = ['--config', 'ops/posthaste.config.json']
    const file = join(folder.path, 'ops/data/shop.db')
    const shown = await folder.run(['config', '--json', ...args])
    expect(shown.json.outboxes[0].database.url).toBe(`sqlite:${file}`)
    const missing = await folder.run(['status', ...args])
    expect(missing).toMatchObject({ code: 4, stderr: expect.stringContaining(`there is no file ${file};`) })
    expect(await folder.run(['migrate', ...args])).toMatchObject({ code: 0 })
    expect(existsSync(file)).toBe(true)
  })

  it('prefers OUTBOX_DB_URL to DATABASE_URL, and names variables that mean nothing', async () => {
    const env = { DATABASE_URL: 'sqlite:a.db', OUTBOX_DB_URL: 'sqlite:b.db', POSTHASTE_POL_INTERVAL: '1s' }
    const folder = createFolder()
    const { json } = await folder.run(['config', '--json'], { env })
    expect(json.outboxes[0].database).toEqual({
      url: `sqlite:${join(folder.path, 'b.db')}`,
      from: 'OUTBOX_DB_URL',
    })
    expect(json.unknownVariables).toEqual(['POSTHASTE_POL_INTERVAL'])
    // Who made the address knows its scheme.
    const file = await folder.run(['config', '--json'], { env: { DATABASE_URL: 'file:./a.db' } })
    expect(file.json.outboxes[0].database.url).toBe(`file:${join(folder.path, 'a.db')}`)
    const worker = await (await createShop()).run(['worker', '--once'], { env })
    expect(worker).toMatchObject({ code: 0, stderr: expect.stringContaining('["POSTHASTE_POL_INTERVAL"]') })
  })
})

describe('a wrong configuration', () => {
  const outboxes = { shop: { module: './shop.mjs' } }
  it.each([
    [
      { outboxes, outbox: { pollIntervall: '5s' } },
      'outbox.pollIntervall is not a setting; did you mean "pollInterval"?',
    ],
    [{ outboxes, outbox: { pollInterval: 'soon' } }, 'outbox.pollInterval must be a duration such as'],
    [
      { outboxes, outbox: { pollIntervalMs: 1 } },
      'posthaste: outbox.pollIntervalMs must be a whole number from 10 to 3600000, not 1',
    ],
    [
      { outboxes: { shop: { module: './shop.mjs', retry: { maxAttempts: 0 } } } },
      'posthaste: outboxes.shop.retry.maxAttempts must be a whole number of 1 or more, or Infinity, not 0',
    ],
    [
      { outboxes, outbox: { concurrency: 0 } },
      'posthaste: outbox.concurrency must be a whole number from 1 to',
    ],
    [
      { outboxes, outbox: { retry: { jitter: 'some' } } },
      'outbox.retry.jitter must be a number or half or none, not the string "some"',
    ],
    [
      { outboxes, outbox: { cleanup: { cleanup_interval_ticks: 'x' } } },
      'outbox.cleanup.cleanupIntervalTicks must be a number of ticks',
    ],
    [
      { outboxes, outbox: { destinations: { post: { concurrency: 2 } } } },
      'posthaste: outbox.destinations.post: outbox "shop" has no destination "post"',
    ],
    [
      { outboxes, outbox: { serve: 'post' } },
      'posthaste: outbox.serve: outbox "shop" has no destination "post"; there are: mailer, audit',
    ],
    [
      { outboxes, outbox: { pollInterval: '5s', pollIntervalMs: 1_000 } },
      'outbox.pollInterval and outbox.pollIntervalMs are the same setting',
    ],
    [
      { outboxes, outbox: { poll_interval: '5s', pollInterval: '10s' } },
      'outbox.poll_interval and outbox.pollInterval are the same setting; keep one of them (',
    ],
    [
      { outboxes, enable_outbox: true, enableOutbox: false },
      'enable_outbox and enableOutbox are the same setting; keep one of them (',
    ],
    [{ outboxes, outboxs: {} }, 'outboxs is not a key of the configuration; did you mean'],
    [
      { outboxes, subscription: 'event_store', enableOutbox: true },
      'enableOutbox = true contradicts subscription = "event_store"',
    ],
    [
      { outboxes, subscription: 'queue' },
      'subscription must be stream or event_store, not the string "queue"',
    ],
    [{ outboxes: { shop: { module: './none.mjs' } } }, 'none.mjs could not be loaded'],
    [{ outboxes: { shop: {} } }, 'outboxes.shop has neither outbox, module nor url'],
    [{ outboxes: { shop: { url: 'oracle://x' } } }, 'posthaste.config.json) must begin with postgres://'],
    [{ outboxes: { shop: { url: 'ada:secret@h' } } }, 'outboxes.shop.url ('],
    [{ outboxes: { shop: { url: 'sqlite:a.db', schema: 'x' } } }, 'schema is for PostgreSQL alone'],
    [{ outboxes: { shop: { url: 'mysql://ada:s3/cret@h:1/x' } } }, 'posthaste.config.json) cannot be parsed'],
    [{ outboxes: { shop: { url: 'postgres://ada@h:port/x' } } }, 'posthaste.config.json) cannot be parsed'],
    [
      { outboxes, worker: { workers: 0 } },
      'posthaste: worker.workers must be a whole number from 1 to 100, not 0',
    ],
  ])('%j is refused', async (config, message) => {
    const folder = withFile('posthaste.config.json', JSON.stringify(config))
    const { code, stderr, stdout } = await folder.run(['worker'])
    expect(stderr).toContain(message)
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
  })

  it('is refused when it does not even parse, or exports nothing', async () => {
    const broken = await withFile('posthaste.config.json', '{ "outboxes": ').run(['status'])
    expect(broken).toMatchObject({ code: 3 })
    expect(broken.stderr).toContain('posthaste.config.json could not be loaded')
    const empty = await withFile('posthaste.config.mjs', 'export const x = 1').run(['status'])
    expect(empty.stderr).toContain('has no default export')
  })

  it('says where code of the user failed to load, and says it once', async () => {
    const folder = withFile('posthaste.config.mjs', "import './more.mjs'\nexport default {}")
    folder.write('more.mjs', "export {}\nthrow new Error('postgres://ada:secret@h/db is bad')")
    const { code, stderr } = await folder.run(['status'])
    expect(code).toBe(3)
    expect(stderr).toMatch(
      /config\.mjs could not be loaded: postgres:\/\/ada:\*\*\*@h\/db is bad \(\S+\/more\.mjs, line 2\) \[POSTHASTE_INVALID_CONFIG\]\n/,
    )
    folder.write(
      'more.mjs',
      "import { createRequire } from 'node:module'\ncreateRequire(import.meta.url)('nowhere')",
    )
    const missing = await folder.run(['status'])
    expect(missing.stderr).toContain("Cannot find module 'nowhere'")
    expect(missing.stderr).not.toContain('Require stack')
    expect(missing.stderr).toMatch(/more\.mjs, line 2\)/)
    folder.write('more.mjs', "import 'nowhere'")
    expect((await folder.run(['status'])).stderr).not.toMatch(/line \d+\)/)
  })

  it('says where a mistake in the syntax is', async () => {
    const folder = withFile('posthaste.config.mjs', "import './more.mjs'\nexport default {")
    const own = await folder.run(['status'])
    expect(own.stderr).toMatch(
      /config\.mjs could not be loaded: Unexpected end of input \(line 2\) \[POSTHASTE_INVALID_CONFIG\]\n/,
    )
    folder.write('posthaste.config.mjs', "import './more.mjs'\nexport default {}")
    folder.write('more.mjs', 'export const here = 1')
    folder.write('posthaste.config.mjs', "import { there } from './more.mjs'\nexport default { there }")
    expect((await folder.run(['status'])).stderr).toMatch(/named 'there' \[POSTHASTE_INVALID_CONFIG\]\n/)
    folder.write('posthaste.config.mjs', "import './more.mjs'\nexport default {}")
    folder.write('more.mjs', 'export {')
    expect((await folder.run(['status'])).stderr).toContain('(in a file that it imports)')
  })

  it('tells a mistake in TypeScript on one line', async () => {
    const folder = withFile('posthaste.config.ts', 'const a string = 1\nexport default {}')
    const { stderr } = await folder.run(['status'])
    expect(stderr).toMatch(/^posthaste: \S+config\.ts could not be loaded: .*Expected/)
    expect(stderr).not.toContain('\\n')
  })

  it('is turned off by its subscription', async () => {
    const folder = withFile(
      'posthaste.config.json',
      JSON.stringify({ outboxes, subscription: 'event_store' }),
    )
    const { code, stderr } = await folder.run(['worker', '--once'])
    expect(code).toBe(3)
    expect(stderr).toContain('the outbox is turned off')
  })
})
