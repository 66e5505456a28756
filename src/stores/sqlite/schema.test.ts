import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { migrations } from './migrations/migrations.generated.ts'

describe('the compiled migrations', () => {
  it('are the SQL files, word for word', () => {
    const folder = join(import.meta.dirname, 'migrations')
    const files = readdirSync(folder)
      .filter((name) => name.endsWith('.sql'))
      .sort()
    expect(migrations.map(({ version, name }) => `${String(version).padStart(4, '0')}_${name}.sql`)).toEqual(
      files,
    )
    for (const [i, file] of files.entries()) {
      expect(migrations[i]?.sql).toBe(readFileSync(join(folder, file), 'utf8'))
    }
  })
})
