import { describe, expect, it } from 'vitest'
import { missingMigrations, printMigrations, schemaStatus } from './migrator.ts'

const MIGRATIONS = [
  { version: 1, name: 'first', sql: 'CREATE TABLE "{prefix}a" (x);\n' },
  { version: 2, name: 'second', sql: 'ALTER TABLE "{prefix}a" ADD y;\n' },
]
const applied = (...versions: number[]) =>
  versions.map((version) => ({ version, name: `n${version}`, appliedAtMs: version }))

describe('migrations', () => {
  it('are all missing from an empty database', () => {
    expect(missingMigrations(MIGRATIONS, []).map(({ version }) => version)).toEqual([1, 2])
    expect(schemaStatus(MIGRATIONS, [])).toEqual({ current: 0, latest: 2, applied: [] })
  })

  it('are applied once each, in order', () => {
    expect(missingMigrations([...MIGRATIONS].reverse(), applied(1)).map(({ version }) => version)).toEqual([
      2,
    ])
    expect(missingMigrations(MIGRATIONS, applied(2, 1))).toEqual([])
  })

  it('are refused when the database is ahead of the library', () => {
    expect(() => missingMigrations(MIGRATIONS, applied(1, 2, 3))).toThrow(
      expect.objectContaining({ code: 'POSTHASTE_SCHEMA_AHEAD' }),
    )
  })

  it('can be printed with a prefix and the note that they were applied', () => {
    const text = printMigrations(MIGRATIONS, 'shop_', ({ version }) => `NOTE ${version}`)
    expect(text).toContain('CREATE TABLE "shop_a" (x);')
    expect(text).toContain('-- 0002_second')
    expect(text).toContain('NOTE 2;')
    expect(text).not.toContain('{prefix}')
  })
})
