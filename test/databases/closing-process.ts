/** A process that does nothing but open an outbox and, when it is told to, close it. */
import { createOutbox } from '../../src/index.ts'
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { postgresStore } from '../../src/stores/postgres/index.ts'

const [kind, connectionString = '', name = ''] = process.argv.slice(2)

const outbox =
  kind === 'postgres-new'
    ? createOutbox({ store: postgresStore({ connectionString, schema: name, queryTimeoutMs: 5_000 }) })
    : createOutbox({ store: mysqlStore({ connectionString, prefix: name, queryTimeoutMs: 5_000 }) })

await outbox.start()
process.once('message', () => {
  process.disconnect()
  void outbox.close()
})
process.send?.('ready')
