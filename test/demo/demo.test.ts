/** The demo as somebody runs it, and its figures computed once more in another way from what it leaves behind. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import Database from 'libsql'
import { afterAll, describe, expect, it } from 'vitest'
import { Board } from '../../demo/board.ts'
import { paint } from '../../demo/paint.ts'
import { wrap } from '../../demo/wrap.ts'
import { TYPESCRIPT } from '../../scripts/run.ts'
import { type Ended, runDemo } from './run-demo.ts'

const demo = (...args: readonly string[]): Promise<Ended> => runDemo(args)

const folder = mkdtempSync(join(tmpdir(), 'posthaste-demo-test-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const lastLine = (text: string): Record<string, number> => JSON.parse(text.trimEnd().split('\n').at(-1) ?? '')

interface Line {
  readonly eventId: string
  readonly destination: string
  readonly run: number
  readonly attempt: number
  readonly path: string
  readonly ok: boolean
  readonly fault: string | null
  readonly latencyMs: number | null
}

const ROUTES: Readonly<Record<string, readonly string[]>> = {
  'order.placed': ['mailer', 'warehouse'],
  'payment.captured': ['mailer', 'partner'],
  'stock.reserved': ['warehouse'],
  'page.viewed': ['analytics'],
}

/** By hand and row by row, with none of the demo's code. */
const recompute = (dir: string) => {
  const lines = readFileSync(join(dir, 'calls.ndjson'), 'utf8').trimEnd().split('\n')
  const calls = lines.map((line) => JSON.parse(line) as Line)
  const database = new Database(join(dir, 'shop.db'))
  const rows = (sql: string) =>
    database.prepare(sql).all() as { event_id: string; [column: string]: unknown }[]
  const events = rows('SELECT lower(hex(id)) AS event_id, type FROM outbox_events')
  const all = rows(`SELECT replace(event_id, '-', '') AS event_id, destination, run, status FROM outbox_all`)
  database.close()
  const ended = new Map(all.map((row) => [`${row.event_id} ${row.destination} ${row.status}`, row]))
  let [delivered, dead, lost] = [0, 0, 0]
  for (const { event_id, type } of events) {
    for (const destination of ROUTES[String(type)] ?? []) {
      if (ended.has(`${event_id} ${destination} done`)) delivered += 1
      else if (ended.has(`${event_id} ${destination} dead`)) dead += 1
      else lost += 1
    }
  }
  const seen = new Set<string>()
  const firsts: Line[] = []
  let [duplicates, successes] = [0, 0]
  for (const call of calls) {
    const pair = `${call.eventId} ${call.destination}`
    if (!seen.has(pair)) firsts.push(call)
    seen.add(pair)
    const success = `${pair} ${call.run} ok`
    if (call.ok && seen.has(success)) duplicates += 1
    if (call.ok) seen.add(success)
    if (call.ok) successes += 1
  }
  const calm = firsts.filter(({ fault }) => fault === null)
  const latencies = firsts
    .flatMap(({ path, latencyMs }) => (path === 'hot' && latencyMs !== null ? [latencyMs] : []))
    .sort((a, b) => a - b)
  return {
    published: events.length,
    delivered,
    calls: successes,
    dead,
    lost,
    duplicates,
    redriven: all.filter(({ run }) => Number(run) > 1).length,
    hotShare: Number((calm.filter(({ path }) => path === 'hot').length / calm.length).toFixed(4)),
    latencyMsP50: latencies[Math.ceil(latencies.length * 0.5) - 1],
    latencyMsP99: latencies[Math.ceil(latencies.length * 0.99) - 1],
  }
}

describe('the demo', () => {
  it('loses nothing, repeats nothing, and its figures can be computed again', {
    timeout: 120_000,
  }, async () => {
    const dir = join(folder, 'calm')
    const { code, stdout, stderr } = await demo('--events', '300', '--seed', '7', '--json', '--dir', dir)
    const figures = lastLine(stdout)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(figures).toMatchObject(recompute(dir))
    expect(figures).toMatchObject({
      published: 300,
      lost: 0,
      duplicates: 0,
      dead: 0,
      redriven: 3,
      events: 300,
      seed: 7,
    })
    expect(figures.hotShare).toBeGreaterThanOrEqual(0.9)
    // No terminal, no escape sequences.
    expect(stdout).not.toContain('\x1b')
  })

  it('survives being killed in mid-flight', async () => {
    const dir = join(folder, 'crash')
    const { code, stdout, stderr } = await demo('--events', '300', '--crash', '--json', '--dir', dir)
    const figures = lastLine(stdout)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain(`${figures.delivered} deliveries are done (${figures.calls} calls)`)
    expect(figures).toMatchObject(recompute(dir))
    expect(figures).toMatchObject({ published: 300, lost: 0, dead: 0 })
    expect(figures.kills).toBeGreaterThanOrEqual(3)
    expect(figures.duplicates).toBeLessThanOrEqual(figures.inFlightAtKills ?? -1)
  })

  it.each([
    [['--evnets', '5'], "Unknown option '--evnets'"],
    [['--events', 'many'], '--events must be a whole number from 300 to 200000, not "many"'],
    [['--events', '299'], '--events must be a whole number'],
    [['--seed=-1'], '--seed must be a whole number'],
    [['--crash=yes'], "Option '--crash' does not take an argument"],
    [['--events'], "Option '--events <value>' argument missing"],
    [['stray'], "Unexpected argument 'stray'"],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await demo(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(message)
    expect(stderr).toContain('--help')
  })

  it('runs with libsql alone, and says what to install where there is nothing', {
    timeout: 120_000,
  }, async () => {
    const alone = await runDemo(['--events', '300'], ['libsql'])
    expect(alone).toMatchObject({ code: 0, stderr: '' })
    const { code, stdout, stderr } = await runDemo(['--events', '300'], [])
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(stderr).toMatch(
      /^No SQLite library could be loaded\. Install one of them: npm install libsql .*\[POSTHASTE_MISSING_PEER\]\n$/,
    )
  })

  it('never overwrites an earlier run', async () => {
    const dir = mkdtempSync(join(folder, 'kept-'))
    writeFileSync(join(dir, 'shop.db'), 'precious')
    const { code, stderr } = await demo('--dir', dir)
    expect(code).toBe(2)
    expect(stderr).toContain('holds an earlier run already')
    expect(readdirSync(dir)).toEqual(['shop.db'])
    expect(readFileSync(join(dir, 'shop.db'), 'utf8')).toBe('precious')
  })

  it('ends quietly when nobody reads on', async () => {
    const child = spawn(process.execPath, [...TYPESCRIPT, 'demo/main.ts', '--events', '300'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let stderr = ''
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    child.stdout.once('data', () => child.stdout.destroy())
    const [code] = await once(child, 'close')
    expect({ code, stderr }).toEqual({ code: 141, stderr: '' })
  })

  it('explains itself', async () => {
    const { code, stdout } = await demo('--help')
    expect(code).toBe(0)
    for (const option of ['--events', '--seed', '--dir', '--crash', '--json'])
      expect(stdout).toContain(option)
    for (const field of [
      'lost',
      'duplicates',
      'died',
      'redriven',
      'hotShare',
      'latencyMsP99',
      'inFlightAtKills',
    ])
      expect(stdout).toMatch(new RegExp(`^  (\\w+, )*${field}`, 'm'))
  })
})

describe('a line that is too long', () => {
  it('is broken between words and goes on below its text', () => {
    expect(wrap('00:01.0  the mailer is down', 20, '         ')).toBe('00:01.0  the mailer\n         is down')
    expect(wrap('  one two three', 7, '  ')).toBe('  one\n  two\n  three')
  })

  it('stays as it is where nobody knows the width, and where a word is longer than a line', () => {
    expect(wrap('one two three', undefined, '')).toBe('one two three')
    expect(wrap('  unbreakable word', 5, '  ')).toBe('  unbreakable word')
  })

  it('is cut on the board, and says so', () => {
    const board = new Board(300)
    board.tell('a very long sentence '.repeat(9))
    const cut = paint(board, 80).map(stripVTControlCharacters)
    expect(Math.max(...cut.map((text) => text.length))).toBe(79)
    const ended = cut.filter((text) => text.endsWith('…'))
    expect(ended).toHaveLength(2)
  })
})
