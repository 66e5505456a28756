/** A store on a server, by its kind, for the tests and for the processes that they start. */
import type { Store } from '../../../src/index.ts'
import { mysqlStore } from '../../../src/stores/mysql/index.ts'
import { postgresStore } from '../../../src/stores/postgres/index.ts'

export interface Place {
  readonly kind: 'postgres' | 'mariadb' | 'mysql'
  readonly url: string
  /** Schema or prefix: what keeps this test's tables apart from those of others. */
  readonly name: string
}

const POOL_SIZE = 4

export const storeAt = ({ kind, url, name }: Place): Store =>
  (kind === 'postgres'
    ? postgresStore({ connectionString: url, schema: name, poolSize: POOL_SIZE })
    : mysqlStore({ connectionString: url, prefix: `${name}_`, poolSize: POOL_SIZE })) as unknown as Store
