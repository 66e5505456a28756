/** A process of its own for the tests with several of them: `boot SERVER PREFIX` migrates, at the parent's word. */
import { mysqlStore } from '../../src/stores/mysql/index.ts'
import { type ServerName, serverUrl } from './servers.ts'
import { testContext } from './sqlite-files.ts'

const [, , server = '', prefix = ''] = process.argv
const store = mysqlStore({ connectionString: serverUrl(server as ServerName), prefix, ownConnections: 2 })

/** Everybody begins at the same moment, when the parent says so. */
const begin = new Promise<void>((resolve) => process.once('message', () => resolve()))

process.send?.('ready')
await begin
await store.open(testContext())
await store.schema.migrate()
await store.close()
process.disconnect?.()
