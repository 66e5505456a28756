import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from '../command.ts'
import { EXIT } from '../exit-codes.ts'
import { Interrupted } from '../failures.ts'

/** Beside this program in the package. */
const PROGRAM = fileURLToPath(new URL('./demo.mjs', import.meta.url))

/** Its last line: figures, or why there are none. */
const answerIn = (output: string): Readonly<Record<string, unknown>> | null => {
  const last = output.trimEnd().split('\n').at(-1) ?? ''
  return last.startsWith('{') ? (JSON.parse(last) as Readonly<Record<string, unknown>>) : null
}

export const demo: Command = {
  name: 'demo',
  group: 'Learn',
  summary: 'a small shop whose listeners, mail server and code break, and nothing is lost',
  operands: '',
  counts: [0, 0],
  about: [
    'Runs on a SQLite file in a temporary folder, and ends with a count from the database: nothing lost, nothing twice. With --crash the ' +
      'shop is killed in mid-flight, again and again; what was in flight at a kill may come twice, and is counted.',
  ],
  flags: [
    { name: 'events', value: 'N', about: 'events to publish, 300 to 200,000 (default 2000)' },
    { name: 'seed', value: 'S', about: 'the same seed publishes the same events (default 1)' },
    { name: 'dir', value: 'FOLDER', about: 'keep the database and the calls there' },
    { name: 'crash', about: 'kill the shop in mid-flight' },
  ],
  examples: [
    ['posthaste demo', 'about ten seconds'],
    ['posthaste demo --crash', 'with kill -9'],
  ],
  async run(session) {
    if (!existsSync(PROGRAM)) session.refuse('the demo is part of the built package; here it is npm run demo')
    const values = ['events', 'seed', 'dir'].flatMap((flag) => {
      const text = session.text(flag)
      return text === undefined ? [] : [`--${flag}`, text]
    })
    const flags = [...(session.isOn('crash') ? ['--crash'] : []), ...(session.isJson ? ['--json'] : [])]
    const child = spawn(process.execPath, [PROGRAM, ...values, ...flags], {
      env: { ...process.env, POSTHASTE_DEMO_CALLED: 'posthaste help demo' },
      stdio: ['inherit', session.isJson ? 'pipe' : 'inherit', 'inherit'],
    })
    const chunks: Buffer[] = []
    child.stdout?.on('data', (chunk: Buffer) => chunks.push(chunk))
    session.signal.addEventListener('abort', () => child.kill('SIGTERM'))
    const code = await new Promise<number>((resolve) => {
      child.once('close', (exitCode) => resolve(exitCode ?? EXIT.failed))
      child.once('error', () => resolve(EXIT.failed))
    })
    const told = answerIn(Buffer.concat(chunks).toString('utf8'))
    const isOver = session.isJson ? told !== null : code === EXIT.ok
    // A terminal sends Ctrl-C to the shop as well, which may end before we hear of it.
    if (!isOver && (session.signal.aborted || code === EXIT.interrupted))
      throw new Interrupted('stopped: nothing was counted')
    if (session.isJson && told === null) throw new Error(`the demo ended with ${code}, without an answer`)
    return { exitCode: code, json: told ?? {} }
  },
}
