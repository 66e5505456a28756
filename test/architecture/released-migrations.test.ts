/** A migration that was released is frozen: databases have it, so a change needs a new one. */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import type { Store } from '../../src/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'
import { sqliteStore } from '../../src/stores/sqlite/index.ts'
import { previousBuild, release } from '../compat/previous.ts'

type Create = (options: Record<string, unknown>) => Pick<Store, 'schema'>

/** Partitions are part of what is made, so stores that can have them are asked for both forms. */
const FORMS: readonly (readonly [store: string, now: Create, options: Record<string, unknown>])[] = [
  ['sqlite', sqliteStore as unknown as Create, { file: ':memory:' }],
  ['postgres', postgresStore as unknown as Create, { connectionString: 'postgres://nowhere/none' }],
  [
    'postgres',
    postgresStore as unknown as Create,
    { connectionString: 'postgres://nowhere/none', layout: 'partitioned' },
  ],
  ['mysql', mysqlStore as unknown as Create, { connectionString: 'mysql://nowhere/none' }],
  [
    'mysql',
    mysqlStore as unknown as Create,
    { connectionString: 'mysql://nowhere/none', layout: 'partitioned' },
  ],
]

describe(`the migrations of ${release.version}`, () => {
  it.each(FORMS)(
    'of %s are the first ones of these sources, to the byte (%#)',
    async (name, now, options) => {
      const module = (await import(
        pathToFileURL(join(previousBuild(), 'dist', `${name}.mjs`)).href
      )) as Record<string, Create>
      const then = module[`${name}Store`] as Create
      const released = then(options).schema.sql()
      expect(released).toContain('0001_create_outbox')
      expect(now(options).schema.sql().slice(0, released.length)).toBe(released)
    },
  )
})
