/** The properties of `npm run fuzz` that go to a server, with fewer values and always the same ones. */
import { expect, it } from 'vitest'
import { serverProperties } from '../../fuzz/properties/index.ts'
import { checkProperty } from '../../fuzz/property.ts'

it.each(serverProperties(process.env))(
  '$name are accepted and come out as they went in, or are refused',
  { timeout: 120_000 },
  async (one) => {
    const { failure, runs } = await checkProperty(one, { runs: 400, seed: 1 })
    expect(failure).toBeNull()
    expect(runs).toBeGreaterThan(0)
  },
)
