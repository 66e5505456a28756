/** The client suite as tests: one library on every database that it supports. */
import { afterAll, beforeAll, describe, it } from 'vitest'
import { runClientSuite } from '../../src/testing/suites/index.ts'
import { isIn, REST_CLIENTS } from '../parts.ts'
import { type DatabaseName, dropTables, pglite } from './databases.ts'
import { CLIENT_TARGETS } from './targets.ts'

/**
 * A library that runs on many databases meets PostgreSQL among most tests, unless it belongs to the rest itself, and the
 * others in the rest. Of MariaDB and MySQL, which drivers tell apart and libraries do not, it meets one; `npm run test:full`
 * and `npm run test:clients` have both.
 */
const isMet = (name: string, database: DatabaseName, all: readonly DatabaseName[]): boolean => {
  if (all.length === 1) return true
  if (!all.includes('postgres')) return isIn(database === 'mysql' ? 'rest' : 'most')
  if (database === 'mysql' && process.env.POSTHASTE_TEST_FULL !== 'true') return false
  return isIn(database === 'postgres' && !REST_CLIENTS.includes(name) ? 'most' : 'rest')
}

export const testClient = (name: string): void => {
  const target = CLIENT_TARGETS[name]
  if (target === undefined) throw new Error(`there is no client called ${name}`)
  const databases = target.databases.filter((database) => isMet(name, database, target.databases))
  // It starts for all cases; the first of them has not the time for it on a busy machine.
  if (databases.includes('pglite')) beforeAll(() => pglite(), 120_000)
  afterAll(() => dropTables(databases))
  for (const database of databases) {
    describe(`${name} on ${database}`, () => {
      const skip = target.skip[database] ?? []
      runClientSuite({ describe, it, skip, create: () => target.create(database) })
    })
  }
}
