// Copied by scripts/test-package.ts into a folder whose node_modules has the packed package alone, and run there by
// several Nodes. Plain JavaScript, because there is no loader. Every subpath must load both ways, with the same names,
// and whatever needs a library says which.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { posix } from 'node:path'

const require = createRequire(import.meta.url)
const namesOf = (module) =>
  Object.keys(module)
    .filter((name) => name !== 'default' && name !== 'module.exports')
    .sort()

const { exports } = require('posthaste/package.json')
const subpaths = Object.keys(exports).filter((subpath) => subpath !== './package.json')
/** Of no use without this package, so they are allowed to ask for it, by its name. */
const NEEDS = { './nestjs': '@nestjs/common', './otel': '@opentelemetry/api' }
for (const subpath of subpaths) {
  const name = posix.join('posthaste', subpath)
  if (subpath in NEEDS) {
    const asked = new RegExp(`Cannot find (package|module) '${NEEDS[subpath]}'`)
    await assert.rejects(import(name), asked)
    assert.throws(() => require(name), asked)
    continue
  }
  const imported = namesOf(await import(name))
  assert.notEqual(imported.length, 0, `${name} exports nothing`)
  assert.deepEqual(namesOf(require(name)), imported, `${name} differs between ESM and CommonJS`)
}

const hasNodeSqlite = Number(process.versions.node.split('.')[0]) >= 22
/** What a store asks for when it is started. */
const asking = ({ postgresStore }, { mysqlStore }, { sqliteStore }) => [
  [postgresStore({ connectionString: 'postgres://127.0.0.1:1/none' }), 'npm install pg'],
  [mysqlStore({ connectionString: 'mysql://127.0.0.1:1/none' }), 'npm install mysql2'],
  [sqliteStore({ file: ':memory:', driver: 'libsql' }), 'npm install libsql'],
  [sqliteStore({ file: ':memory:', driver: 'better-sqlite3' }), 'npm install better-sqlite3'],
  ...(hasNodeSqlite ? [] : [[sqliteStore({ file: ':memory:' }), 'npm install libsql']]),
]
for (const load of [async (name) => await import(name), async (name) => require(name)]) {
  const { createOutbox } = await load('posthaste')
  const stores = asking(
    await load('posthaste/postgres'),
    await load('posthaste/mysql'),
    await load('posthaste/sqlite'),
  )
  for (const [store, advice] of stores) {
    const outbox = createOutbox({ store })
    await assert.rejects(outbox.start(), (error) => {
      assert.equal(error.code, 'POSTHASTE_MISSING_PEER')
      assert.ok(error.message.includes(advice), `${error.message} does not say ${advice}`)
      return true
    })
    await outbox.close()
  }
}
