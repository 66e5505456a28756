import Libsql from 'libsql'
import { DataSource, type DataSourceOptions, EntitySchema, type MixedList } from 'typeorm'
import type { EmptyDatabase } from './databases.ts'
import { importOfPage } from './page.ts'
import { describeTool } from './tool.ts'

const Order = new EntitySchema({
  name: 'orders',
  columns: { id: { type: Number, primary: true } },
})

const settingsOf = ({ name, url }: EmptyDatabase): object =>
  name === 'sqlite' ? { type: 'better-sqlite3', database: url, driver: Libsql } : { type: name, url }

type Migrations = Extract<DataSourceOptions['migrations'], MixedList<unknown>>

describeTool('TypeORM', ['postgres', 'mariadb', 'sqlite'], async (database, folder) => {
  const module = await importOfPage<Record<string, unknown>>(folder, '1763208000000-outbox.ts', database)
  const dataSource = new DataSource({
    ...settingsOf(database),
    entities: [Order],
    migrations: Object.values(module) as unknown as Migrations,
  } as DataSourceOptions)
  await dataSource.initialize()
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
