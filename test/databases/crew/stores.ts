/** A store on a server, by its kind, for the tests and for the processes that they start. */
import type { Store } from '../../../src/index.ts'
import { postgresStore } from '../../../src/stores/postgres/index.ts'

export interface Place {
  readonly kind: 'postgres'
  readonly url: string
  /** Schema or prefix: what keeps this test's tables apart from those of others. */
  readonly name: string
}

export const storeAt = ({ url, name }: Place): Store =>
  postgresStore({ connectionString: url, schema: name, poolSize: 4 }) as unknown as Store
