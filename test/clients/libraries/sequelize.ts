import { Sequelize, type Transaction } from 'sequelize'
import { sequelizeTransactions } from '../../../src/clients/sequelize.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

export const sequelizeOn = ({ name, url }: TestDatabase): Sequelize =>
  new Sequelize(url, {
    dialect: name === 'postgres' ? 'postgres' : 'mysql',
    logging: false,
    pool: { max: 6 },
  })

export const openSequelize = async (database: TestDatabase): Promise<OpenLibrary<Transaction>> => {
  const sequelize = sequelizeOn(database)
  return {
    transactions: sequelizeTransactions(sequelize),
    exec: (tx, sql) => sequelize.query(sql, { transaction: tx }),
    own: (fn) => sequelize.transaction(fn),
    ownNested: (tx, fn) => sequelize.transaction({ transaction: tx }, fn),
    outside: [sequelize],
    close: () => sequelize.close(),
  }
}
