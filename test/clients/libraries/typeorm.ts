import Libsql from 'libsql'
import { DataSource, type DataSourceOptions, type EntityManager } from 'typeorm'
import { typeormTransactions } from '../../../src/clients/typeorm.ts'
import type { DatabaseName, TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

const settingsOf = (name: DatabaseName, url: string): DataSourceOptions =>
  name === 'sqlite'
    ? // libsql in the place of better-sqlite3: the same interface, on the lowest Node.
      { type: 'better-sqlite3', database: url, driver: Libsql }
    : ({ type: name, url, poolErrorHandler: () => undefined } as unknown as DataSourceOptions)

export const typeormOn = ({ name, url }: TestDatabase): Promise<DataSource> =>
  new DataSource(settingsOf(name, url)).initialize()

export const openTypeorm = async (database: TestDatabase): Promise<OpenLibrary<EntityManager>> => {
  const dataSource = await typeormOn(database)
  return {
    transactions: typeormTransactions(dataSource),
    exec: (tx, sql) => tx.query(sql),
    own: (fn) => dataSource.transaction(fn),
    ownNested: (tx, fn) => tx.transaction(fn),
    outside: [dataSource, dataSource.manager, dataSource.createQueryRunner()],
    close: () => dataSource.destroy(),
  }
}
