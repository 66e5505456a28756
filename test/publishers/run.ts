/** The publisher suite as tests. */
import { describe, it } from 'vitest'
import { runPublisherSuite } from '../../src/testing/suites/index.ts'
import { PUBLISHER_TARGETS } from './targets.ts'

export const testPublisher = (name: string): void => {
  const target = PUBLISHER_TARGETS[name]
  if (target === undefined) throw new Error(`there is no publisher called ${name}`)
  describe(name, () => runPublisherSuite({ describe, it, skip: target.skip, create: () => target.create() }))
}
