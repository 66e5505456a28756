import { execFile, spawn } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT, TYPESCRIPT } from '../../scripts/run.ts'

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const services = (...args: readonly string[]): Promise<Ended> =>
  new Promise((resolve) => {
    const all = [...TYPESCRIPT, join('scripts', 'services', 'main.ts'), ...args]
    execFile(process.execPath, all, { cwd: ROOT, timeout: 170_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr })
    })
  })

describe('npm run services', () => {
  it('explains itself', async () => {
    const { code, stdout, stderr } = await services('--help')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const word of ['up', 'down', 'status', 'env', 'kill', '--data', '--json', 'pgbouncer', 'Exit code'])
      expect(stdout).toContain(word)
  })

  it.each([
    [[], 'Which command?'],
    [['restart'], 'There is no command "restart".'],
    [['up', 'oracle'], 'There is no service "oracle"'],
    [['up', '--data'], '--data belongs to `down`.'],
    [['kill'], '`kill` wants the name of one service.'],
    [['up', '--bogus'], "Unknown option '--bogus'"],
  ])('refuses %j', async (args, message) => {
    const { code, stdout, stderr } = await services(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe(`${stderr.split('\n')[0]}\nSee npm run services -- --help\n`)
    expect(stderr).toContain(message)
  })

  it('says so in JSON too, when asked', async () => {
    const { stdout } = await services('up', 'oracle', '--json')
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      error: expect.stringContaining('no service "oracle"'),
    })
  })
})

describe('a reader that leaves early', () => {
  it.each(['scripts/services/main.ts', 'scripts/model.ts', 'simulator/main.ts'])(
    'ends %s quietly',
    { timeout: 180_000 },
    async (program) => {
      const child = spawn(process.execPath, [...TYPESCRIPT, program, '--help'], { cwd: ROOT })
      child.stdout.destroy()
      let said = ''
      child.stderr.on('data', (chunk) => {
        said += String(chunk)
      })
      const code = await new Promise((resolve) => child.once('close', resolve))
      expect({ code, said }).toEqual({ code: 141, said: '' })
    },
  )
})
