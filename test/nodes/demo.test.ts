/** The demo where libsql is not installed. */
import { expect, it } from 'vitest'
import { runDemo } from '../demo/run-demo.ts'

it.each(['node:sqlite', 'better-sqlite3'] as const)(
  'the demo runs with %s alone',
  {
    timeout: 600_000,
  },
  async (driver) => {
    const { code, stdout } = await runDemo(['--events', '300', '--json'], [driver])
    const figures: unknown = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '')
    expect(code).toBe(0)
    expect(figures).toMatchObject({ published: 300, lost: 0, duplicates: 0 })
  },
)
