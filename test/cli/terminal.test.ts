/** What people see in a terminal: a real one, made by Python's pty. */

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createFolder, createShop, createShopWithDead, PROGRAM, SHOP } from './cli.ts'

/**
 * Runs its arguments in a pseudo-terminal of 100 columns; once the text was seen gives Ctrl-C or is closed; or waits. Ends after
 * everything that ran there.
 */
const PTY = `import fcntl, glob, os, pty, struct, sys, termios, time
how, seen, args = sys.argv[1], sys.argv[2].encode(), sys.argv[3:]
pid, fd = pty.fork()
if pid == 0:
    os.execvp(args[0], args)
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 100, 0, 0))
out, sent = b'', False
while True:
    try:
        chunk = os.read(fd, 65536)
    except OSError:
        break
    if not chunk:
        break
    out += chunk
    if seen and seen in out and not sent:
        sent = True
        if how == 'close':
            os.close(fd)
            break
        os.write(fd, b'\\x03')
sys.stdout.buffer.write(out)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
def runs_here(stat):
    try:
        state, _, _, session = open(stat).read().rsplit(')', 1)[1].split()[:4]
    except OSError:
        return False
    return state != 'Z' and int(session) == pid
while any(runs_here(stat) for stat in glob.glob('/proc/[0-9]*/stat')):
    time.sleep(0.02)
sys.exit(code)
`

const inTerminal = (
  cwd: string,
  until: string,
  args: readonly string[],
  how: 'interrupt' | 'close' = 'interrupt',
  shell: readonly string[] = [],
): Promise<{ readonly code: number; readonly output: string }> =>
  new Promise((resolve) => {
    writeFileSync(join(cwd, 'terminal.py'), PTY)
    const all = ['terminal.py', how, until, ...shell, process.execPath, PROGRAM, ...args]
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, TERM: 'xterm-256color' }
    execFile('python3', all, { cwd, env }, (error, stdout) => {
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout })
    })
  })

describe('in a terminal', { timeout: 240_000 }, () => {
  it('status --watch takes the screen, repeats itself, and gives the screen back at Ctrl-C', async () => {
    const shop = await createShopWithDead(3)
    const watch = ['status', '--watch', '--interval', '200ms']
    const { code, output } = await inTerminal(shop.path, '0.0/s', watch)
    expect(code).toBe(0)
    expect(output.startsWith('\u001b[?1049h\u001b[?25l')).toBe(true)
    expect(output.trimEnd().endsWith('\u001b[?25h\u001b[?1049l')).toBe(true)
    expect(output).toContain('\u001b[31m')
    expect(output.split('\u001b[H').length).toBeGreaterThan(2)
    for (const word of ['posthaste status', 'mailer', 'audit', 'dead', 'lag', 'rate'])
      expect(output).toContain(word)
  })

  it('status --watch leaves its last look on the screen when it ends by itself', async () => {
    const shop = await createShopWithDead(3)
    const watch = ['status', '--watch', '--interval', '100ms', '--times', '2']
    const { code, output } = await inTerminal(shop.path, '', watch)
    expect(code).toBe(0)
    const left = output.split('\u001b[?25h\u001b[?1049l')[1]
    for (const word of ['posthaste status', 'mailer', 'audit', '0.0/s']) expect(left).toContain(word)
  })

  it('a bulk redrive shows a bar', async () => {
    const shop = await createShopWithDead(4)
    const redrive = ['dead', 'redrive', '--all', '--per-second', '2']
    const { code, output } = await inTerminal(shop.path, '', redrive)
    expect(code).toBe(0)
    expect(output).toContain('redriven ████████████░░░░░░░░░░░░  50%  2/4')
    expect(output).toContain('4 deliveries redriven')
  })

  it('a worker logs lines to read, in processes of their own too', async () => {
    const shop = await createShop()
    await shop.publish(1, 'ada')
    const single = await inTerminal(shop.path, '', ['worker', '--once'])
    expect(single.code).toBe(0)
    expect(single.output).toContain('\u001b[31merror\u001b[0m a delivery is dead; redrive or discard it')
    expect(single.output).toContain('destination=mailer')
    expect(single.output).not.toContain('{"time"')
    await shop.publish(1, 'bob')
    const two = await inTerminal(shop.path, 'bob', ['worker', '--workers', '2', '--no-color'])
    expect(two.output).toMatch(/\d\d:\d\d:\d\d error a delivery is dead; redrive or discard it {2}worker=\d /)
    expect(two.output).not.toContain('{"time"')
  })

  // What a shell has started hears of it more than once.
  const SHELL = ['bash', '--norc', '-i', '-c', '"$@"; true', 'bash']

  it.each([
    { who: 'alone', flags: [], shell: [] },
    { who: 'alone, in a shell', flags: [], shell: SHELL },
    { who: 'supervised', flags: ['--workers', '2'], shell: [] },
    { who: 'supervised, in a shell', flags: ['--workers', '2'], shell: SHELL },
  ])('a worker drains when its terminal is closed: $who', async ({ flags, shell }) => {
    const shop = await createShop()
    // Long enough for a second signal to come meanwhile.
    const slow = `async () => {
      const closed = once(process, 'SIGHUP')
      writeSync(1, 'being heard')
      await closed
      await setTimeout(1_000)
    }`
    const imports = `import { once } from 'node:events'
import { appendFileSync, writeSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
const note = (...said) => appendFileSync('log', JSON.stringify([process.pid, ...said]) + '\\n')
process.on('exit', (code) => note('exit', code))
`
    const logger = '  logger: { log: note },\n  destinations:'
    shop.write('shop.mjs', `${imports}${SHOP.replace('() => {}', slow).replace('  destinations:', logger)}`)
    await shop.publish(1)
    await inTerminal(shop.path, 'being heard', ['worker', ...flags], 'close', shell)
    const { json } = await shop.run(['status', '--json'])
    const audit = json.outboxes[0].destinations.find(({ name }: { name: string }) => name === 'audit')
    expect(audit.counts).toMatchObject({ done: 1 })
    // Who does not say goodbye is still known here, with its lanes, until its lease has run out and somebody looks.
    const log = readFileSync(join(shop.path, 'log'), 'utf8')
    expect(json.outboxes[0].workers, log).toEqual([])
  })

  it('status --watch ends with its terminal, also where no signal says so', async () => {
    const shop = await createShopWithDead(1)
    // Neither the first of its session nor in the foreground.
    const aside =
      'import os, subprocess, sys; subprocess.Popen(sys.argv[1:], preexec_fn=os.setpgrp); sys.stdin.read()'
    const watch = ['status', '--watch', '--interval', '200ms']
    const { output } = await inTerminal(shop.path, '0.0/s', watch, 'close', ['python3', '-c', aside])
    expect(output).toContain('posthaste status')
  })

  it('doctor ends with its terminal while it waits for a server that says nothing', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const folder = createFolder()
    folder.write(
      'posthaste.config.mjs',
      `import { writeSync } from 'node:fs'
import { createOutbox } from 'posthaste'
import { defineConfig } from 'posthaste/config'
import { postgresStore } from 'posthaste/postgres'

writeSync(1, 'it is asked')
const store = postgresStore({ connectionString: 'postgres://127.0.0.1:${port}/shop' })
export default defineConfig({ outboxes: { shop: createOutbox({ store }) } })
`,
    )
    const { output } = await inTerminal(folder.path, 'it is asked', ['doctor'], 'close')
    expect(output).toBe('it is asked')
  })

  it('init asks its questions', async () => {
    const { output, code } = await inTerminal(createFolder().path, 'Which database?', ['init'])
    expect(output).toContain('(sqlite, postgres, mysql, mariadb)')
    expect(output).toContain('nothing was written')
    expect(code).toBe(130)
  })
})
