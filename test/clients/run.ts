/** The client suite as tests: one library on every database that it supports. */
import { afterAll, describe, it } from 'vitest'
import { runClientSuite } from '../../src/testing/suites/index.ts'
import { dropTables } from './databases.ts'
import { CLIENT_TARGETS } from './targets.ts'

export const testClient = (name: string): void => {
  const target = CLIENT_TARGETS[name]
  if (target === undefined) throw new Error(`there is no client called ${name}`)
  afterAll(() => dropTables(target.databases))
  for (const database of target.databases) {
    describe(`${name} on ${database}`, () => {
      const skip = target.skip[database] ?? []
      runClientSuite({ describe, it, skip, create: () => target.create(database) })
    })
  }
}
