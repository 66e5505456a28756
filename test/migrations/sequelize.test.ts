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
  const statements: string[] = []
  const sequelize = new Sequelize(database.url, {
    dialect: database.storeName as 'postgres' | 'mysql',
    logging: (sql) => statements.push(sql),
  })
  sequelize.define('Order', { id: { type: DataTypes.INTEGER, primaryKey: true } }, { tableName: 'orders' })
  const queries = sequelize.getQueryInterface()
  const umzug = new Umzug({
    migrations: [{ name: FILE, up: () => up(queries), down: () => down(queries) }],
    storage: new SequelizeStorage({ sequelize }),
    logger: undefined,
  })
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
    close: () => sequelize.close(),
  }
})
