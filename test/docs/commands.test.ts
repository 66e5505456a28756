/** Commands that the documents name explain themselves, and refuse what they cannot do in one sentence. */
import { execFile } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { ROOT } from './code-blocks.ts'

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const simulate = (...args: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const all = ['--import', 'tsx', 'simulator/main.ts', ...args]
    execFile(process.execPath, all, { cwd: ROOT, timeout: 50_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr })
    })
  })

describe('npm run simulate', () => {
  it('explains itself', { timeout: 60_000 }, async () => {
    const { code, stdout, stderr } = await simulate('--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const option of ['--seeds', '--from', '--seed', '--trace', '--defect', '--json', 'Exit code'])
      expect(stdout).toContain(option)
  })

  it.each([
    [['--bogus'], "Unknown option '--bogus'"],
    [['foo'], "Unexpected argument 'foo'"],
    [['--seeds', 'abc'], '--seeds must be a whole number from 1 to 1000000, not "abc"'],
    [['--seeds', '0'], '--seeds must be a whole number from 1 to 1000000, not "0"'],
    [['--defect', 'none'], 'there is no defect "none"'],
    [['--trace'], '--trace needs --seed'],
  ])('refuses %j', { timeout: 60_000 }, async (args, message) => {
    const { code, stdout, stderr } = await simulate(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${stderr.split('\n')[0]}\nSee npm run simulate -- --help\n`)
    expect(stderr).toContain(message)
  })
})
