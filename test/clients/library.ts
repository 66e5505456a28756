/** A library on a database, as the client suite wants it. */
import type { Transactions } from '../../src/core/spi/index.ts'
import type { SqlExecutor } from '../../src/stores/postgres/index.ts'
import type { ClientHarness } from '../../src/testing/suites/index.ts'
import type { TestDatabase } from './databases.ts'

/** What a file in `libraries/` has to say about a library that was opened on a database. */
export interface OpenLibrary<Tx> {
  readonly transactions: Transactions<Tx, SqlExecutor>
  /** The application's own statement in the transaction. */
  exec(tx: Tx, sql: string): Promise<unknown>
  own(fn: (tx: Tx) => Promise<void>): Promise<unknown>
  ownNested?(tx: Tx, fn: (tx: Tx) => Promise<void>): Promise<unknown>
  readonly outside: readonly unknown[]
  readonly keepsLateStatements?: boolean
  /** How the library writes it. Default `COMMIT`. */
  readonly commitText?: string
  /** `hasLost`: a connection was cut while COMMIT was on its way. */
  close(hasLost: boolean): Promise<void>
}

export const harnessOn = async <Tx>(
  database: TestDatabase,
  open: (database: TestDatabase) => Promise<OpenLibrary<Tx>>,
): Promise<ClientHarness<Tx, SqlExecutor>> => {
  const { rows, spoiling, cutAt, deadlock, roundTrips } = database
  const library = await open(database)
  const { ownNested } = library
  let hasLost = false
  return {
    store: database.store,
    transactions: library.transactions,
    write: (tx, n) => library.exec(tx, `INSERT INTO ${rows} (n) VALUES (${n})`),
    written: () => database.numbers(),
    fail: (tx) => library.exec(tx, 'SELECT no_such_column FROM no_such_table'),
    failureEndsTransaction: database.failureEndsTransaction,
    own: (fn) => library.own(fn),
    ...(ownNested === undefined ? {} : { ownNested }),
    outside: library.outside,
    keepsLateStatements: library.keepsLateStatements === true,
    overlaps: database.overlaps,
    ...(spoiling === null ? {} : { spoilCommit: (tx: Tx) => library.exec(tx, spoiling) }),
    ...(cutAt === undefined
      ? {}
      : {
          loseCommit: (when) => {
            hasLost = true
            return cutAt(library.commitText ?? 'COMMIT', when)
          },
        }),
    ...(deadlock === undefined ? {} : { deadlock: (tx: Tx) => deadlock((sql) => library.exec(tx, sql)) }),
    ...(roundTrips === undefined ? {} : { roundTrips }),
    dispose: async () => {
      await library.close(hasLost)
      await database.dispose()
    },
  }
}
