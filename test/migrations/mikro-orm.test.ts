import { EntitySchema, type MikroORM, type Options } from '@mikro-orm/core'
import { MikroORM as OnLibsql } from '@mikro-orm/libsql'
import { MikroORM as OnMariadb } from '@mikro-orm/mariadb'
import { Migrator } from '@mikro-orm/migrations'
import { MikroORM as OnPostgres } from '@mikro-orm/postgresql'
import type { EmptyDatabase } from './databases.ts'
import { importOfPage } from './page.ts'
import { describeTool } from './tool.ts'

const Order = new EntitySchema({
  name: 'Order',
  tableName: 'orders',
  properties: { id: { type: 'number', primary: true } },
})

interface Page {
  readonly schemaGenerator: Options['schemaGenerator']
}

const open = async (
  { name, url }: EmptyDatabase,
  migration: unknown,
  schemaGenerator: Options['schemaGenerator'] | undefined,
): Promise<MikroORM> => {
  const where = name === 'sqlite' ? { dbName: url } : { clientUrl: url }
  const start = { postgres: OnPostgres, mariadb: OnMariadb, sqlite: OnLibsql }[name] as typeof OnPostgres
  const options = {
    ...where,
    entities: [Order],
    extensions: [Migrator],
    logger: () => undefined,
    migrations: { migrationsList: [migration], snapshot: false },
    ...(schemaGenerator === undefined ? {} : { schemaGenerator }),
  }
  return (await start.init(options as never)) as never
}

const compare = async ({ schema }: MikroORM): Promise<string> => {
  const { up, down } = await schema.getUpdateSchemaMigrationSQL()
  return `${up}\n${down}\n${await schema.getUpdateSchemaSQL()}`
}

describeTool('MikroORM', ['postgres', 'mariadb', 'sqlite'], async (database, folder) => {
  const [migration] = Object.values(
    await importOfPage<Record<string, unknown>>(folder, 'Migration20261115120000.ts', database),
  )
  const { schemaGenerator } = await importOfPage<Page>(folder, 'mikro-orm.config.ts', database)
  const orm = await open(database, migration, schemaGenerator)
  const unprotected = await open(database, migration, undefined)
  return {
    migrate: async () => (await orm.migrator.up()).map(({ name }) => name),
    synchronize: () => orm.schema.update(),
    compare: () => compare(orm),
    compareUnprotected: () => compare(unprotected),
    rollBack: () => orm.migrator.down(),
    close: async () => {
      await unprotected.close()
      await orm.close()
    },
  }
})
