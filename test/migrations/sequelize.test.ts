import { DataTypes, type QueryInterface, Sequelize } from 'sequelize'
import { SequelizeStorage, Umzug } from 'umzug'
import { importOfPage } from './page.ts'
import { describeTool } from './tool.ts'

interface MigrationFile {
  up(queries: QueryInterface): Promise<void>
  down(queries: QueryInterface): Promise<void>
}

const FILE = '20261115130000-outbox.ts'

describeTool('Sequelize', ['postgres', 'mariadb'], async (database, folder) => {
  const { up, down } = await importOfPage<MigrationFile>(folder, FILE, database)
  const dialect = database.storeName as 'postgres' | 'mysql'
  // As with sequelize-cli, what migrates knows no models, and the application knows no migrations.
  const migrating = new Sequelize(database.url, { dialect, logging: false })
  const queries = migrating.getQueryInterface()
  const umzug = new Umzug({
    migrations: [{ name: FILE, up: () => up(queries), down: () => down(queries) }],
    storage: new SequelizeStorage({ sequelize: migrating }),
    logger: undefined,
  })
  const statements: string[] = []
  const sequelize = new Sequelize(database.url, { dialect, logging: (sql) => statements.push(sql) })
  sequelize.define('Order', { id: { type: DataTypes.INTEGER, primaryKey: true } }, { tableName: 'orders' })
  return {
    migrate: async () => (await umzug.up()).map(({ name }) => name),
    synchronize: () => sequelize.sync({ alter: true }),
    // It compares and changes in one, so what it sends is what it would change.
    compare: async () => {
      statements.length = 0
      await sequelize.sync({ alter: true })
      await sequelize.sync({ force: true })
      return statements.join('\n')
    },
    rollBack: () => umzug.down(),
    close: async () => {
      await sequelize.close()
      await migrating.close()
    },
  }
})
