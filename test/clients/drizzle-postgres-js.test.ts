/** Drizzle with its second driver for PostgreSQL. */
import { afterAll, describe, it } from 'vitest'
import { runClientSuite } from '../../src/testing/suites/index.ts'
import { dropTables, openDatabase } from './databases.ts'
import { openDrizzleOnPostgresJs } from './libraries/drizzle.ts'
import { harnessOn } from './library.ts'
import { LATE, UNAWAITED } from './targets.ts'

describe('drizzle with postgres.js on postgres', () => {
  afterAll(() => dropTables(['postgres']))
  runClientSuite({
    describe,
    it,
    skip: [LATE, UNAWAITED],
    create: async () => harnessOn(await openDatabase('postgres', { again: true }), openDrizzleOnPostgresJs),
  })
})
