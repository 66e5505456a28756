/** Commands that the documents name explain themselves, and refuse what they cannot do in one sentence. */
import { execFile } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { ROOT } from './code-blocks.ts'

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const run = (script: string, args: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const all = [...TYPESCRIPT, script, ...args]
    execFile(process.execPath, all, { cwd: ROOT, timeout: 50_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr })
    })
  })

const simulate = (...args: readonly string[]): Promise<Ended> => run('simulator/main.ts', args)
const chaos = (...args: readonly string[]): Promise<Ended> => run('chaos/main.ts', args)
const outage = (...args: readonly string[]): Promise<Ended> => run('chaos/outage/main.ts', args)
const mutants = (...args: readonly string[]): Promise<Ended> => run('mutants/main.ts', args)

describe('npm run simulate', () => {
  it('explains itself', async () => {
    const { code, stdout, stderr } = await simulate('--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const option of [
      '--seeds',
      '--from',
      '--seed',
      '--trace',
      '--cut',
      '--defect',
      '--first',
      '--json',
      'Exit code',
    ])
      expect(stdout).toContain(option)
  })

  it.each([
    [['--bogus'], "Unknown option '--bogus'"],
    [['foo'], "Unexpected argument 'foo'"],
    [['--seeds', 'abc'], '--seeds must be a whole number from 1 to 1000000, not "abc"'],
    [['--seeds', '0'], '--seeds must be a whole number from 1 to 1000000, not "0"'],
    [['--defect', 'none'], 'there is no defect "none"'],
    [['--trace'], '--trace needs --seed'],
    [['--cut', 'calm'], '--cut needs --seed'],
    [['--seed', '1', '--cut', 'crush'], 'there is no cut "crush"'],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await simulate(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${stderr.split('\n')[0]}\nSee npm run simulate -- --help\n`)
    expect(stderr).toContain(message)
  })
})

describe('npm run mutants', () => {
  it('explains itself', async () => {
    const { code, stdout, stderr } = await mutants('--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const option of ['--only', '--list', '--jobs', '--json', 'Exit code'])
      expect(stdout).toContain(option)
  })

  it('names its mutants', async () => {
    const { code, stdout } = await mutants('--list', '--only', 'cursor-without-sweep')
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: 'cursor-without-sweep  what commits late behind the cursor is found\n',
    })
  })

  it.each([
    [['--bogus'], "Unknown option '--bogus'"],
    [['foo'], "Unexpected argument 'foo'"],
    [['--only', 'none'], 'there is no mutant "none"'],
    [['--jobs', '0'], '--jobs must be a whole number from 1 to 8, not "0"'],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await mutants(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${stderr.split('\n')[0]}\nSee npm run mutants -- --help\n`)
    expect(stderr).toContain(message)
  })
})

describe('npm run chaos', () => {
  it('explains itself', async () => {
    const { code, stdout, stderr } = await chaos('--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const option of [
      '--store',
      '--minutes',
      '--seed',
      '--destination',
      '--previous',
      '--check',
      '--json',
    ])
      expect(stdout).toContain(option)
  })

  it.each([
    [['--bogus'], "Unknown option '--bogus'"],
    [['--store', 'oracle'], '--store must be one of postgres, mysql, mariadb, sqlite, not "oracle"'],
    [['--minutes', '0'], '--minutes must be a number from 0.1 to 600, not "0"'],
    [['--seed', '1.5'], '--seed must be a whole number from 0 to 4294967295, not "1.5"'],
    [['--destination', 'moon'], '--destination: there is no "moon"'],
    [['--destination', 'kafka,redis'], '--destination: one broker at a time, not kafka and redis'],
    [['--previous', 'none.tgz'], '--previous: there is no none.tgz'],
    [['--check', 'nowhere'], '--check: there is no run.json in nowhere'],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await chaos(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${stderr.split('\n')[0]}\nSee npm run chaos -- --help\n`)
    expect(stderr).toContain(message)
  })
})

describe('npm run outage', () => {
  it('explains itself', async () => {
    const { code, stdout, stderr } = await outage('--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const option of ['--broker', '--seconds', '--rate', '--json', 'Exit code'])
      expect(stdout).toContain(option)
  })

  it.each([
    [['--bogus'], "Unknown option '--bogus'"],
    [['--broker', 'mqtt'], '--broker must be one of kafka, rabbitmq, redis, nats, not "mqtt"'],
    [['--seconds', '0'], '--seconds must be a whole number from 1 to 3600, not "0"'],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await outage(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${stderr.split('\n')[0]}\nSee npm run outage -- --help\n`)
    expect(stderr).toContain(message)
  })
})

describe('npm run docs', () => {
  const docs = (...args: readonly string[]): Promise<Ended> => run('scripts/docs/main.ts', args)

  it('explains itself', async () => {
    const { code, stdout, stderr } = await docs('--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const option of ['--serve', '--port', '--out', '--json', 'Exit code'])
      expect(stdout).toContain(option)
  })

  it.each([
    [['--bogus'], "Unknown option '--bogus'"],
    [['--port', '70000'], '--port must be a whole number from 0 to 65535, not "70000"'],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await docs(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${stderr.split('\n')[0]}\nSee npm run docs -- --help\n`)
    expect(stderr).toContain(message)
  })
})

describe.each([
  ['check', 'scripts/check.ts'],
  ['test', 'scripts/test.ts'],
])('npm run %s', (name, script) => {
  it('explains itself instead of running everything', async () => {
    const { code, stdout, stderr } = await run(script, ['--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/^Usage: npm .*Exit code/s)
  })

  it.each([
    ['--bogus', "Unknown option '--bogus'"],
    ['src/', "Unexpected argument 'src/'"],
  ])('refuses %s', async (argument, message) => {
    const { code, stdout, stderr } = await run(script, [argument])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${message}\nSee npm run ${name} -- --help\n`)
  })
})
