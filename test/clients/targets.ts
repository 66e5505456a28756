/** The clients that `npm run test:clients` can run the conformance suite on, each on every database it supports. */
import type { ClientHarness, SuiteOptions } from '../../src/testing/suites/index.ts'
import { type DatabaseName, openDatabase, type TestDatabase } from './databases.ts'
import { openKnex } from './libraries/knex.ts'
import { openKysely } from './libraries/kysely.ts'
import { openPg } from './libraries/pg.ts'
import { harnessOn, type OpenLibrary } from './library.ts'

export interface ClientTarget {
  /** The package whose version is tested. */
  readonly package: string
  readonly databases: readonly DatabaseName[]
  /** What docs/clients.md says. */
  readonly says: Says
  /** What cannot hold with this library, and why. */
  readonly skip: Skips
  create(database: DatabaseName): Promise<ClientHarness<never, never>>
}

interface Says {
  readonly function: string
  readonly commitHooks: boolean
  readonly nested: 'savepoints' | 'its own'
}

type Skips = Partial<Record<DatabaseName, NonNullable<SuiteOptions['skip']>>>

const target = <Tx>(
  name: string,
  databases: readonly DatabaseName[],
  says: Says,
  open: (database: TestDatabase) => Promise<OpenLibrary<Tx>>,
  skip: Skips = {},
): ClientTarget => ({
  package: name,
  databases,
  says,
  skip,
  create: async (database) =>
    (await harnessOn(await openDatabase(database), open)) as unknown as ClientHarness<never, never>,
})

const says = (name: string, more: Partial<Says> = {}): Says => ({
  function: name,
  commitHooks: false,
  nested: 'savepoints',
  ...more,
})

const EVERYWHERE: readonly DatabaseName[] = ['postgres', 'mariadb', 'mysql', 'sqlite']

export const CLIENT_TARGETS: Readonly<Record<string, ClientTarget>> = {
  pg: target('pg', ['postgres'], says('pgTransactions'), openPg),
  kysely: target('kysely', EVERYWHERE, says('kyselyTransactions'), openKysely),
  knex: target(
    'knex',
    EVERYWHERE,
    says('knexTransactions', { commitHooks: true, nested: 'its own' }),
    openKnex,
    {
      sqlite: [
        {
          test: 'a COMMIT that the database refuses: rolled back, and nothing is sent',
          reason: 'Knex gives the connection back with the transaction still open on it',
        },
      ],
    },
  ),
}
