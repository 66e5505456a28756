/** The properties of `npm run fuzz`, with fewer values and always the same ones. */
import { describe, expect, it } from 'vitest'
import { embeddedProperties } from '../../fuzz/properties/index.ts'
import { checkProperty, isRefusal, pure } from '../../fuzz/property.ts'
import { plainText } from '../../fuzz/values.ts'
import { InvalidOptionError } from '../../src/index.ts'

const RUNS = 150
const SEED = 1

describe('values of all kinds', () => {
  it.each(embeddedProperties)(
    '$name are accepted and come out as they went in, or are refused',
    async (one) => {
      const { failure, accepted, refused } = await checkProperty(one, { runs: RUNS, seed: SEED })
      expect(failure).toBeNull()
      expect([accepted > 0, refused > 0]).toEqual([true, true])
    },
  )
})

describe('the fuzzer finds', () => {
  const broken = async (check: (value: string) => 'accepted' | Promise<'accepted'>): Promise<string | null> =>
    (await checkProperty(pure('broken', plainText, check), { runs: 20, seed: SEED })).failure

  it('an error that is not ours, with its seed and the smallest value', async () => {
    const failure = await broken(() => {
      isRefusal(new TypeError('x is undefined'))
      return 'accepted'
    })
    expect(failure).toMatch(/^seed 1, path .*no error of ours; because of x is undefined/)
  })

  it('a message that helps nobody', async () => {
    const failure = await broken(() => {
      isRefusal(new InvalidOptionError('[object Object] is wrong', { option: 'x', value: 1 }))
      return 'accepted'
    })
    expect(failure).toContain('helps nobody')
  })

  it('a prototype that everybody shares and that was changed', async () => {
    const shared = Object.prototype as Record<string, unknown>
    try {
      expect(
        await broken(() => {
          shared.polluted = true
          return 'accepted'
        }),
      ).toContain('changed a prototype')
    } finally {
      delete shared.polluted
    }
  })
})
