import { DataSource, type EntityManager } from 'typeorm'
import { typeormTransactions } from '../../../src/clients/typeorm.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

export const openTypeorm = async ({ name, url }: TestDatabase): Promise<OpenLibrary<EntityManager>> => {
  const type = name === 'postgres' ? 'postgres' : name === 'mysql' ? 'mysql' : 'mariadb'
  const dataSource = new DataSource({ type, url, poolErrorHandler: () => undefined, entities: [] } as never)
  await dataSource.initialize()
  return {
    transactions: typeormTransactions(dataSource),
    exec: (tx, sql) => tx.query(sql),
    own: (fn) => dataSource.transaction(fn),
    ownNested: (tx, fn) => tx.transaction(fn),
    outside: [dataSource, dataSource.manager, dataSource.createQueryRunner()],
    close: () => dataSource.destroy(),
  }
}
