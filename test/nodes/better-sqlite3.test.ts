/**
 * The conformance suite over better-sqlite3, through the application's own handle: the package is installed
 * beside these tests and not beside the library, so the library could not load it by itself here.
 */
import Database from 'better-sqlite3'
import { describe, it } from 'vitest'
import { runStoreSuite } from '../../src/testing/suites/index.ts'
import { createHandleHarness } from '../stores/sqlite-harness.ts'

describe('better-sqlite3, in a file', () => {
  runStoreSuite({ describe, it, create: () => createHandleHarness((file) => new Database(file)) })
})

describe('better-sqlite3, in memory', () => {
  runStoreSuite({
    describe,
    it,
    create: () => createHandleHarness((file) => new Database(file), { memory: true }),
    skip: [{ test: 'another process sees the same queue', reason: 'memory belongs to one process' }],
  })
})
