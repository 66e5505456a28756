import { it } from 'vitest'
import { beNewcomer } from './newcomer.ts'

it('goes from an empty folder to a delivered event on SQLite, and repairs a dead one', {
  timeout: 240_000,
}, async () => {
  await beNewcomer({
    database: 'sqlite',
    // Older Nodes have no SQLite of their own.
    packages: ['libsql'],
    env: {},
    statements: [
      "tx.exec('CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY)')",
      "tx.prepare('INSERT INTO orders (id) VALUES (?)').run('o-1')",
    ],
  })
})
