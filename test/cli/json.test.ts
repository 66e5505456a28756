/** `--json` on every command: the last line of standard output is one object, and the exit code agrees with it. */
import { describe, expect, it } from 'vitest'
import { COMMANDS } from '../../src/cli/commands/index.ts'
import { EXIT } from '../../src/cli/exit-codes.ts'
import { describeFailure } from '../../src/cli/failures.ts'
import { parse } from '../../src/cli/parse.ts'
import { createShop, createShopWithDead, type Ended, SHOP } from './cli.ts'

interface Ids {
  readonly good: string
  readonly bad: string
}

/** Arguments with which it does something quickly, what is in the answer, and its exit code if that is not 0. */
const RUNS: Readonly<Record<string, readonly [(ids: Ids) => readonly string[], string, (number | 'any')?]>> =
  {
    migrate: [() => ['--status'], 'outboxes'],
    config: [() => [], 'outboxes'],
    worker: [() => ['--once', '--log-level', 'silent'], 'claimed'],
    'consume-one': [() => [], 'idle'],
    cleanup: [() => ['--once'], 'outboxes'],
    // SQLite has none.
    partitions: [() => ['--once'], 'error', EXIT.conflict],
    status: [() => [], 'outboxes'],
    'events list': [() => ['--limit', '1'], 'deliveries'],
    'events show': [({ good }) => [good], 'event'],
    'events tail': [() => ['--limit', '1'], 'lines'],
    why: [({ good }) => [good], 'deliveries'],
    // What it finds depends on what the others are doing meanwhile.
    doctor: [() => [], 'findings', 'any'],
    'dead list': [() => [], 'groups'],
    'dead show': [({ bad }) => [bad], 'attempts'],
    'dead redrive': [() => ['--all', '--dry-run'], 'matched'],
    'dead edit': [({ bad }) => [bad, '--payload', '{"email":"ada@example.org"}'], 'eventId'],
    'dead discard': [() => ['--all', '--dry-run', '--reason', 'test'], 'matched'],
    replay: [() => ['--destination', 'audit', '--dry-run'], 'matched'],
    backfill: [() => ['audit', '--since', '1h'], 'added'],
    pause: [() => ['audit'], 'paused'],
    resume: [() => ['audit'], 'paused'],
    tune: [() => ['audit', '--concurrency', '2'], 'changed'],
    retire: [() => ['audit', '--dry-run'], 'matched'],
    guarantees: [() => [], 'routes'],
    catalog: [() => [], 'events'],
  }
/** These begin in a folder of their own, and have tests of their own. */
const ELSEWHERE = ['init', 'demo']

const answersWithJson = ({ code, json, stdout }: Ended, name: string): void => {
  expect(typeof json?.ok, `${name}: ${stdout}`).toBe('boolean')
  expect({ name, ok: json.ok }).toEqual({ name, ok: code === EXIT.ok })
  if (json.error !== undefined)
    expect(json.error, name).toMatchObject({ code: expect.any(String), exitCode: code })
}

describe('every command', { timeout: 240_000 }, () => {
  it('answers --json with one object on the last line', async () => {
    const shop = await createShop()
    await shop.run(['migrate'])
    const [[good = ''], [bad = '']] = [await shop.publish(1), await shop.publish(2, 'ada')]
    await shop.run(['worker', '--once', '--log-level', 'silent'])
    const answer = async (name: string): Promise<void> => {
      // What is not in the table says what it misses, or does what it does by itself.
      const [args, field, exitCode] = RUNS[name] ?? [() => [], null]
      const ended = await shop.run([...name.split(' '), ...args({ good, bad }), '--json'])
      answersWithJson(ended, name)
      if (field === null) return
      if (exitCode !== 'any') expect({ name, code: ended.code }).toEqual({ name, code: exitCode ?? EXIT.ok })
      expect(Object.keys(ended.json), name).toContain(field)
    }
    const names = COMMANDS.map(({ name }) => name).filter((name) => !ELSEWHERE.includes(name))
    // Two at a time: most of it is the start of a process.
    const line = names[Symbol.iterator]()
    await Promise.all(
      [1, 2].map(async () => {
        for (const name of line) await answer(name)
      }),
    )
  })

  it('refuses a flag that it does not know, with the exit code of a mistake', () => {
    for (const { name } of COMMANDS) {
      const refused = (): unknown => parse([...name.split(' '), '--json', '--no-such-flag'], COMMANDS)
      expect(refused, name).toThrow('does not know the flag --no-such-flag')
      try {
        refused()
      } catch (error) {
        expect(describeFailure(error)).toMatchObject({ exitCode: EXIT.usage, code: 'USAGE' })
      }
    }
  })
})

describe('code of the user', { timeout: 120_000 }, () => {
  /** What the listener of `audit` does. */
  const runAudit = async (does: string, ...more: readonly string[]): Promise<Ended> => {
    const shop = await createShop()
    shop.write('shop.mjs', SHOP.replace("'*', () => {}", `'*', async () => { ${does} }`))
    await shop.publish(1)
    return await shop.run(['worker', '--once', '--log-level', 'silent', '--json', ...more])
  }

  it.each([
    "process.stdout.write('half a line')",
    "process.stdout.write(new TextEncoder().encode('half a line'))",
  ])('that writes half a line leaves the answer one of its own: %s', async (does) => {
    const { json, stdout } = await runAudit(does)
    expect(stdout).toMatch(/^half a line\n\{/)
    expect(json).toMatchObject({ ok: true, done: 2 })
  })

  it.each([
    ['a rejection', "void Promise.reject(new Error('postgres://ada:secret@h/db is stray'))"],
    ['an exception', "setImmediate(() => { throw new Error('postgres://ada:secret@h/db is stray') })"],
  ])('that lets %s go stray crashes the process, which answers', async (_, does) => {
    const { code, json, stdout, stderr } = await runAudit(`${does}; await new Promise(() => {})`)
    expect({ code, json }).toEqual({
      code: EXIT.failed,
      json: {
        ok: false,
        error: {
          code: 'UNEXPECTED',
          message: 'an error that nobody caught: postgres://ada:***@h/db is stray',
          exitCode: EXIT.failed,
        },
      },
    })
    expect(stderr).toMatch(/^ {4}at .*shop\.mjs/m)
    expect(stdout + stderr).not.toContain('secret')
  })

  it('beside which somebody ends the process, if nobody else listens, is ended by them', async () => {
    const alone = `process.listeners('uncaughtException').length === 1`
    const does = `process.on('uncaughtException', () => { if (${alone}) process.exit(42) }); setImmediate(() => { throw new Error('stray') }); await new Promise(() => {})`
    expect((await runAudit(does)).code).toBe(42)
  })

  it('that catches stray errors itself goes on', async () => {
    const does = `process.once('uncaughtException', () => {}); setImmediate(() => { throw new Error('stray') }); await new Promise(setImmediate)`
    expect(await runAudit(does)).toMatchObject({ code: EXIT.ok, json: { ok: true, done: 2 } })
  })
})

describe('a reader that left before anything was written', () => {
  it.each([
    [['--help']],
    [['migrate', '--sql']],
    [['status', '--json']],
    [['status', '--no-such-flag', '--json']],
  ])('ends %j with 141', async (args) => {
    const shop = await createShop()
    const { child, ended } = shop.start(args)
    child.stdout?.destroy()
    expect((await ended).code).toBe(141)
  })

  it('of notes does not change the answer, which says how the program ends', async () => {
    const shop = await createShop()
    for (const [args, exitCode] of [
      [['status', '--no-such-flag', '--json'], 2],
      [['worker', '--once', '--json'], 0],
    ] as const) {
      const { child, ended } = shop.start(args)
      child.stderr?.destroy()
      const { code, json } = await ended
      expect([args, code, json.error?.exitCode ?? 0]).toEqual([args, exitCode, exitCode])
    }
  })

  it('does not stop an act half way', async () => {
    const shop = await createShopWithDead(2)
    const { child, ended } = shop.start(['dead', 'redrive', '--all'])
    child.stdout?.destroy()
    expect((await ended).code).toBe(141)
    expect((await shop.run(['dead', 'list', '--json'])).json).toMatchObject({ dead: 0 })
  })
})
