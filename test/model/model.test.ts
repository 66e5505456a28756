/** The model of docs/model.md is checked by a machine: one scene as it is, and mistakes that it must notice. */
import { execFile } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { BUGS, SCENES } from '../../scripts/model/catalogue.ts'
import { ROOT, TYPESCRIPT } from '../../scripts/run.ts'

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** The first run brings the checker, and a busy machine takes its time. */
const TIMEOUT_MS = 300_000

const model = (...args: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const all = [...TYPESCRIPT, 'scripts/model.ts', ...args]
    execFile(process.execPath, all, { cwd: ROOT, timeout: TIMEOUT_MS }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr })
    })
  })

const lastLine = (text: string): unknown => JSON.parse(text.trimEnd().split('\n').at(-1) ?? '')

describe('npm run model', () => {
  it('holds in every history of a scene', { timeout: TIMEOUT_MS }, async () => {
    const { code, stdout, stderr } = await model('--scene', 'hot', '--json')
    expect({ code, stderr }).toMatchObject({ code: 0 })
    expect(lastLine(stdout)).toMatchObject({ model: 'outbox', bug: null, violations: 0, property: null })
    expect((lastLine(stdout) as { distinct: number }).distinct).toBeGreaterThan(1_000_000)
  })

  it.each([
    ['exists-without-lock', 'stale-changes-nothing', "p1's settle of e1 is written"],
    ['cursor-without-sweep', 'nothing-stuck', 'p1 reads past its cursor: e3'],
  ])('tells how %s breaks %s', { timeout: TIMEOUT_MS }, async (bug, property, step) => {
    const { code, stdout } = await model('--bug', bug, '--json')
    expect(code).toBe(1)
    expect(lastLine(stdout)).toMatchObject({ bug, violations: 1, property })
    expect(stdout).toContain(step)
  })

  it('explains itself', { timeout: TIMEOUT_MS }, async () => {
    const { code, stdout } = await model('--help')
    expect(code).toBe(0)
    for (const option of ['--scene', '--bug', '--all', '--endless', '--json', 'Exit code'])
      expect(stdout).toContain(option)
    for (const { name } of SCENES) expect(stdout).toContain(name)
  })

  it('names its mistakes', { timeout: TIMEOUT_MS }, async () => {
    const { code, stdout } = await model('--bug', 'list')
    expect(code).toBe(0)
    for (const { name } of BUGS) expect(stdout).toContain(name)
  })

  it.each([
    [['--bogus'], "Unknown option '--bogus'"],
    [['--bug', 'none'], 'there is no bug "none"'],
    [['--scene', 'none'], 'there is no scene "none"'],
    [['--all', '--scene', 'hot'], '--all goes with --json alone'],
    [['--endless', '--bug', 'no-read-guard'], '--endless looks at the model as it is'],
  ])('refuses %j', { timeout: TIMEOUT_MS }, async (args, message) => {
    const { code, stdout, stderr } = await model(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(message)
  })
})
