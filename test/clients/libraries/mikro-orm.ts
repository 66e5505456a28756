import { type EntityManager, EntitySchema, type MikroORM } from '@mikro-orm/core'
import { MikroORM as OnLibsql } from '@mikro-orm/libsql'
import { MikroORM as OnMariadb } from '@mikro-orm/mariadb'
import { MikroORM as OnMysql } from '@mikro-orm/mysql'
import { MikroORM as OnPostgres } from '@mikro-orm/postgresql'
import { mikroOrmTransactions } from '../../../src/clients/mikro-orm.ts'
import type { TestDatabase } from '../databases.ts'
import type { OpenLibrary } from '../library.ts'

/** It does not start without one. */
const Unused = new EntitySchema({ name: 'Unused', properties: { id: { type: 'number', primary: true } } })

export const mikroOrmOn = async (
  { name, url }: Pick<TestDatabase, 'name' | 'url'>,
  entities: readonly unknown[] = [Unused],
): Promise<MikroORM> => {
  const options = { entities: [...entities], ensureDatabase: false, pool: { min: 0, max: 6 } }
  if (name === 'sqlite') return (await OnLibsql.init({ ...options, dbName: url } as never)) as never
  const start = { postgres: OnPostgres, mariadb: OnMariadb, mysql: OnMysql }[
    name as 'postgres'
  ] as typeof OnPostgres
  return (await start.init({ ...options, clientUrl: url } as never)) as never
}

const execute = (em: EntityManager, sql: string): Promise<unknown> =>
  (em as unknown as { execute(sql: string): Promise<unknown> }).execute(sql)

export const openMikroOrm = async (database: TestDatabase): Promise<OpenLibrary<EntityManager>> => {
  const orm = await mikroOrmOn(database)
  return {
    transactions: mikroOrmTransactions(orm as MikroORM & { em: EntityManager }),
    exec: execute,
    own: (fn) => orm.em.fork().transactional(fn),
    ownNested: (tx, fn) => tx.transactional(fn),
    outside: [orm.em, orm.em.fork(), orm],
    commitText: 'commit',
    // A connection that was lost at COMMIT is never given back, because ROLLBACK fails as well, and closing waits for it.
    async close(hasLost) {
      const closed = orm.close()
      if (!hasLost) await closed
    },
  }
}
