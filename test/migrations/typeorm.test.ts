import { rmSync } from 'node:fs'
import Libsql from 'libsql'
import { DataSource, type DataSourceOptions, EntitySchema, type MixedList } from 'typeorm'
import { expect, it } from 'vitest'
import { newFolder } from '../docs/code-blocks.ts'
import { COMPLETE, type EmptyDatabase, emptyDatabase } from './databases.ts'
import { importOfPage } from './page.ts'
import { describeTool } from './tool.ts'

const Order = new EntitySchema({
  name: 'orders',
  columns: { id: { type: Number, primary: true } },
})

const settingsOf = ({ name, url }: EmptyDatabase): object =>
  name === 'sqlite' ? { type: 'better-sqlite3', database: url, driver: Libsql } : { type: name, url }

type Migrations = Extract<DataSourceOptions['migrations'], MixedList<unknown>>

const open = async (database: EmptyDatabase, folder: string): Promise<DataSource> => {
  const module = await importOfPage<Record<string, unknown>>(folder, '1763208000000-outbox.ts', database)
  const dataSource = new DataSource({
    ...settingsOf(database),
    entities: [Order],
    migrations: Object.values(module) as unknown as Migrations,
  } as DataSourceOptions)
  return await dataSource.initialize()
}

describeTool('TypeORM', ['postgres', 'mariadb', 'sqlite'], async (database, folder) => {
  const dataSource = await open(database, folder)
  return {
    migrate: async () => (await dataSource.runMigrations()).map(({ name }) => name),
    synchronize: () => dataSource.synchronize(),
    compare: async () => {
      const { upQueries, downQueries } = await dataSource.driver.createSchemaBuilder().log()
      return [...upQueries, ...downQueries].map(({ query }) => query).join('\n')
    },
    rollBack: () => dataSource.undoLastMigration(),
    close: () => dataSource.destroy(),
  }
})

// What `dropSchema: true` and `schema:drop` do.
it('on PostgreSQL drops what it remembers of its migrations, and not the outbox', {
  timeout: 600_000,
}, async () => {
  const database = await emptyDatabase('postgres')
  const folder = newFolder()
  const dataSource = await open(database, folder)
  try {
    await dataSource.runMigrations()
    await dataSource.dropDatabase()
    await expect(dataSource.runMigrations()).rejects.toThrow('relation "migrations" already exists')
    await dataSource.query('DROP SCHEMA outbox CASCADE')
    expect(await dataSource.runMigrations()).toHaveLength(1)
    expect(await database.present()).toEqual(COMPLETE)
  } finally {
    await dataSource.destroy()
    rmSync(folder, { recursive: true, force: true })
    await database.dispose()
  }
})
