/** The simulator is worth something only if it notices what is wrong. */
import { expect, it } from 'vitest'
import { DEFECTS, type Defect } from '../../simulator/defects/index.ts'
import { runSeed } from '../../simulator/run.ts'

const DEFECT_SEEDS = 500

/** The first seed that shows the defect, or null. */
const catchDefect = async (defect: Defect): Promise<number | null> => {
  for (let seed = 1; seed <= DEFECT_SEEDS; seed += 1) {
    const { violation } = await runSeed(seed, defect)
    // A seed that is not well without the defect proves nothing about it.
    if (violation !== null && (await runSeed(seed)).violation === null) return seed
  }
  return null
}

it.each(DEFECTS)('the simulator notices $name: $says', { timeout: 240_000 }, async (defect) => {
  expect(await catchDefect(defect)).not.toBeNull()
})
